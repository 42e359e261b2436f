"""The life of a pull request, driven at random against a small model of it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.strategies import booleans, sampled_from
from pull_fixture import House, street

from example_counts import examples

STACK = ExitStack()
METHODS = sampled_from(["merge", "squash", "rebase"])


def teardown_module() -> None:
    STACK.close()


class PullLife(RuleBasedStateMachine):
    """One branch, and the pull requests that come and go between it and main."""

    sandbox: Any = None

    @initialize()
    def begin(self) -> None:
        if PullLife.sandbox is None:
            PullLife.sandbox = STACK.enter_context(street())
        self.house = House(PullLife.sandbox)
        self.house.branch("topic")
        self.branch = True
        self.files = 0
        self.fresh = False
        self.state: dict[int, str] = {}
        self.draft: dict[int, bool] = {}

    def teardown(self) -> None:
        if hasattr(self, "house"):
            self.house.close()

    @property
    def opened(self) -> int | None:
        return next((n for n, state in self.state.items() if state == "open"), None)

    @precondition(lambda self: self.branch)
    @rule()
    def push(self) -> None:
        self.files += 1
        sha = self.house.commit("topic", f"file{self.files}.txt")
        self.fresh = True
        if self.opened is not None:
            assert self.house.get(f"pulls/{self.opened}")["head"]["sha"] == sha

    @rule(draft=booleans())
    def open(self, draft: bool) -> None:
        asked = {"title": "T", "head": "topic", "base": "main", "draft": draft}
        answer = self.house.send("POST", "pulls", **asked)
        if self.branch and self.fresh and self.opened is None:
            number = answer.json()["number"]
            self.state[number], self.draft[number] = "open", draft
        else:
            assert answer.status_code == 422

    @precondition(lambda self: self.opened is not None)
    @rule()
    def close(self) -> None:
        number = self.opened
        assert number is not None
        self.house.made("PATCH", f"pulls/{number}", state="closed")
        self.state[number] = "closed"

    @precondition(lambda self: self.state)
    @rule(last=booleans())
    def reopen(self, last: bool) -> None:
        number = (max if last else min)(self.state)
        answer = self.house.send("PATCH", f"pulls/{number}", state="open")
        state = self.state[number]
        free = self.opened is None and self.branch
        if state == "open" or (state == "closed" and free):
            assert answer.status_code == 200
            self.state[number] = "open"
        else:
            assert answer.status_code == 422

    @precondition(lambda self: self.state)
    @rule(method=METHODS, last=booleans())
    def merge(self, method: str, last: bool) -> None:
        number = (max if last else min)(self.state)
        answer = self.house.send("PUT", f"pulls/{number}/merge", merge_method=method)
        if self.state[number] == "open" and not self.draft[number]:
            assert answer.status_code == 200, answer.text
            assert answer.json()["sha"] == self.house.head()
            self.state[number] = "merged"
            # Only a merge commit makes the branch's own commits part of the base.
            self.fresh = self.fresh and method != "merge"
        else:
            assert answer.status_code == 405

    @precondition(lambda self: self.opened is not None)
    @rule(event=sampled_from(["APPROVE", "COMMENT"]))
    def review(self, event: str) -> None:
        self.house.made("POST", f"pulls/{self.opened}/reviews", "bob", event=event, body="x")
        own = self.house.send("POST", f"pulls/{self.opened}/reviews", event="APPROVE")
        assert own.status_code == 422

    @precondition(lambda self: self.branch)
    @rule()
    def delete_branch(self) -> None:
        assert self.house.call("DELETE", "git/refs/heads/topic").status_code == 204
        if self.opened is not None:
            self.state[self.opened] = "closed"
        self.branch = self.fresh = False

    @precondition(lambda self: not self.branch)
    @rule()
    def make_branch(self) -> None:
        self.house.branch("topic")
        self.branch = True

    @invariant()
    def lists_agree(self) -> None:
        if not hasattr(self, "house"):
            return
        shown = {pull["number"]: pull for pull in self.house.get("pulls?state=all")}
        found = {n: _state(pull) for n, pull in shown.items()}
        assert found == self.state
        issues = {item["number"]: item for item in self.house.get("issues?state=all")}
        assert {n: item["state"] for n, item in issues.items()} == {
            n: "open" if state == "open" else "closed" for n, state in self.state.items()
        }
        for number, item in issues.items():
            assert item["updated_at"] == shown[number]["updated_at"]
            assert item["pull_request"]["merged_at"] == shown[number]["merged_at"]

    @invariant()
    def the_open_one_knows_its_branch(self) -> None:
        if not hasattr(self, "house") or self.opened is None:
            return
        pull = self.house.known(self.opened)
        assert pull["head"]["sha"] == self.house.head("topic")
        assert pull["base"]["sha"] == self.house.head()
        assert pull["mergeable"] is True
        assert pull["mergeable_state"] == ("draft" if self.draft[self.opened] else "clean")


def _state(pull: dict[str, Any]) -> str:
    return "merged" if pull["merged_at"] else str(pull["state"])


PullLife.TestCase.settings = settings(
    max_examples=examples(4, 8), stateful_step_count=14, deadline=None
)
TestPullLife = PullLife.TestCase
