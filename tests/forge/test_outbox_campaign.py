"""Thousands of writes under every fault at once: each has one visible effect."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from github_fixture import SandboxRepo
from outbox_fixture import Post

from hostler.errors import ForgeError
from hostler.forge.actions import CreateComment, OpenIssue, find_tokens
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.store import Store
from hostler.store.outbox import WriteState, open_writes

FAULTS: dict[str, dict[str, Any]] = {
    "502 after success": {"kind": "fail_after"},
    "504 after success": {"kind": "fail_after", "status": 504},
    "502 before anything": {"kind": "fail_before"},
    "cut before": {"kind": "cut", "when": "before"},
    "cut after": {"kind": "cut", "when": "after"},
    "cut in the answer": {"kind": "cut", "when": "body"},
    "timeout": {"kind": "delay", "seconds": 0.3},
    "primary limit": {"kind": "limit", "limit": "primary", "status": 403},
    "secondary limit": {"kind": "limit", "limit": "secondary", "status": 429},
}
IMPATIENT = 0.2
BATCH, THREADS = 20, 7


class Campaign:
    """Batches of writes, each of which meets a fault, or none."""

    def __init__(self, sandbox_repo: SandboxRepo, store: Store, seed: int) -> None:
        self.sandbox_repo = sandbox_repo
        self.store = store
        self.chance = random.Random(seed)
        # A batch has as many faults as writes, and one write may meet them all.
        self.post = Post(sandbox_repo, store, OutboxPolicy(max_attempts=1000))
        self.met: Counter[str] = Counter()
        self.tokens: list[str] = []
        self.threads = [sandbox_repo.issue() for _ in range(THREADS)]
        sandbox_repo.tune(primary_limit=5000)
        self.hub = sandbox_repo.new_hub(timeout=IMPATIENT)
        self.post.sender._forges = self.hub.repo
        while self.hub.transport._server_time() is None:
            with suppress(ForgeError):
                self.hub.transport.now()

    def batch(self, size: int) -> None:
        self.sandbox_repo.tune(visibility_delay=self.chance.choice([0, 0, 30, 250]))
        self.sandbox_repo.sandbox.app.pipeline.faults.remove()
        self.sandbox_repo.sandbox.app.pipeline.ledger.clear()
        for fault in self.chance.choices([*FAULTS, ""], k=size):
            if fault:
                self.sandbox_repo.fault(method="POST", **FAULTS[fault])
                self.met[fault] += 1
        for _ in range(size):
            self.queue()
        self.drain()

    def drain(self) -> None:
        while (until := self.post.sender.send_due()) is not None:
            # The late ones are late by a real clock: no time may pass without them.
            self.sandbox_repo.sandbox.wait(self.late_ones_arrived())
            self.sandbox_repo.pass_time(
                max((until - self.sandbox_repo.clock.now()).total_seconds(), 0.001)
            )

    async def late_ones_arrived(self) -> None:
        pipeline = self.sandbox_repo.sandbox.app.pipeline
        late = sum(one["struck"] for one in pipeline.faults.listed() if one["kind"] == "delay")
        while pipeline.ledger.answer({"fault": "delay"})["matching"]["requests"] < late:
            await asyncio.sleep(0.01)

    def queue(self) -> None:
        token = f"c{len(self.tokens)}"
        number = self.chance.choice(self.threads)
        new = self.chance.random() < 0.2
        deed = OpenIssue(f"Issue {token}", "x") if new else CreateComment(number, "x")
        self.post.queue(deed, token)
        self.tokens.append(token)

    def visible(self) -> Counter[str]:
        """How often each token can be seen, by everything that the host shows."""
        self.sandbox_repo.tune(visibility_delay=0)
        shown = [*self.every("issues?state=all&"), *self.every("issues/comments?")]
        return Counter(token for one in shown for token in find_tokens(one["body"] or ""))

    def every(self, path: str) -> Iterator[dict[str, Any]]:
        for page in count(1):
            found = self.sandbox_repo.do("GET", f"{path}per_page=100&page={page}")
            yield from found
            if len(found) < 100:
                return

    def close(self) -> None:
        self.hub.close()


def run(sandbox_repo: SandboxRepo, store: Store, writes: int, seed: int) -> Campaign:
    campaign = Campaign(sandbox_repo, store, seed)
    while len(campaign.tokens) < writes:
        campaign.batch(min(BATCH, writes - len(campaign.tokens)))
    campaign.close()
    assert campaign.visible() == Counter(campaign.tokens)
    assert sorted(campaign.post.settled) == sorted(
        (token, WriteState.SENT) for token in campaign.tokens
    )
    with store.read() as tx:
        assert open_writes(tx) == []
    return campaign


@pytest.mark.long
def test_many_writes_under_faults_have_one_effect_each(sandbox_repo, store):
    campaign = run(sandbox_repo, store, 120, seed=1)
    assert set(campaign.met) == set(FAULTS)


@pytest.mark.soak
def test_thousands_of_writes_under_faults_have_one_effect_each(sandbox_repo, store):
    campaign = run(sandbox_repo, store, 2400, seed=2)
    assert min(campaign.met[fault] for fault in FAULTS) >= 100
