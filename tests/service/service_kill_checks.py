"""What must be true after a walk, whoever was killed on the way. Seen from outside of services."""

from __future__ import annotations

from collections import Counter
from typing import Any

from service_kill_walk import EDITED, SAID, Walk
from service_town import REPO, US
from sqlalchemy import select

from hostler.model import RepoName
from hostler.store.inbox import pending_feedback_events
from hostler.store.runs import RunState
from hostler.store.schema import outbox
from hostler.store.tasks import TaskState

# What we may ever make on GitHub in one walk: more would be something twice.
MADE = {
    "/repos/{owner}/{repo}/pulls": 1,
    "/repos/{owner}/{repo}/issues/{number}/comments": 1,
    "/repos/{owner}/{repo}/pulls/{number}/comments/{comment_id}/replies": 2,
}


def all_is_well(walk: Walk) -> None:
    """One pull request, one reply per version, one status; all work, once; nothing left."""
    on_github(walk)
    in_git(walk)
    in_the_database(walk)
    among_processes(walk)


def on_github(walk: Walk) -> None:
    alice = walk.alice
    (pull,) = alice.pulls()
    assert pull["merged_at"] and f"Fixes #{walk.issue}" in pull["body"]
    assert alice.issue(walk.issue)["state"] == "closed"
    replies = [said for said in alice.remarks(walk.pull) if _is_ours(said)]
    assert [said["in_reply_to_id"] for said in replies] == [walk.remark] * 2
    assert [_first_line(said) for said in replies] == [f"Done: {SAID}", f"Done: {EDITED}"]
    (status,) = alice.comments(walk.issue)
    assert _is_ours(status) and _first_line(status).startswith("**Hostler** · small job · done")
    assert alice.comments(walk.pull) == []
    assert _made(walk) == MADE


def in_git(walk: Walk) -> None:
    """The agents' own notes are the branch: nothing is lost, twice, or in another order."""
    assert walk.alice.read("work.log").splitlines() == walk.lives()
    commits = walk.alice("GET", f"/pulls/{walk.pull}/commits?per_page=100")
    messages = [one["commit"]["message"] for one in commits]
    assert messages == [life.capitalize() for life in walk.lives()]
    parents = [[parent["sha"] for parent in one["parents"]] for one in commits]
    assert parents[1:] == [[one["sha"]] for one in commits[:-1]]
    assert walk.alice("GET", f"/pulls/{walk.pull}")["head"]["sha"] == commits[-1]["sha"]


def in_the_database(walk: Walk) -> None:
    assert walk.task().state is TaskState.DONE
    runs = walk.runs()
    assert {run.state for run in runs} == {RunState.ENDED}
    assert [run.fence for run in runs] == list(range(1, len(runs) + 1))
    assert sum(run.counted for run in runs) == _begun(walk)
    assert [run.outcome for run in runs].count("success") == 3
    assert walk.rests()
    with walk.store.read() as tx:
        assert set(tx.execute(select(outbox.c.state)).scalars()) == {"sent"}
        assert not pending_feedback_events(tx, RepoName.parse(REPO), walk.pull)


def among_processes(walk: Walk) -> None:
    """Three turns and those whose agent was killed; never two agents at a time; nobody is left."""
    assert not (walk.place / "overlaps").exists()
    assert _begun(walk) == 3 + walk.agents_lost
    assert walk.left() == []


def _begun(walk: Walk) -> int:
    return sum(life.startswith("begin ") for life in walk.lives())


def _made(walk: Walk) -> dict[str, int]:
    """How often we made something, whether we got to know it or not."""
    asked = walk.town.hub.control.get("/ledger", params={"login": US, "method": "POST"})
    return dict(Counter(entry["route"] for entry in asked.json()["entries"]))


def _is_ours(said: dict[str, Any]) -> bool:
    return bool(said["user"]["login"] == US)


def _first_line(said: dict[str, Any]) -> str:
    return str(said["body"]).partition("\n")[0]
