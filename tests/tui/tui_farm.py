"""A farm with something in every panel, at a moment that stands still; and wild words for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st
from intake_yard import database
from why_stage import Stage

from hostler.clock import FakeClock
from hostler.governor.parking import park
from hostler.model import format_timestamp
from hostler.runs import NewRun, admit_run
from hostler.service.scheduling.admission import ADMISSION_SCOPES
from hostler.service.snapshot.snapshot import read_snapshot
from hostler.store.operator import pause, project_scope
from hostler.store.pull_requests import PullRow, PullStatus, add_pull
from hostler.store.runs import RunState, change_run
from hostler.store.tasks import TaskState
from hostler.tui.state import ScreenData

# Words that other people write, which may be anything.
FREE = {"title", "question", "what", "then", "why", "remedy", "agent", "branch", "host", "gate"}
LOG = tuple(f"00:00:{second:02}  octo/barn#{second}  bugfix: at work" for second in range(40))


@contextmanager
def farm() -> Iterator[Stage]:
    """The farm itself."""
    clock = FakeClock()
    with database(clock) as store:
        stage = Stage(store, clock, {"pool": 4})
        yield stage


def issue(stage: Stage, project: str, number: int, title: str, **more: Any):
    named = {"repo_full_name": f"octo/{project}", "issue_number": number, "title": title}
    return stage.put(project, **named, **more)


def populate(stage: Stage) -> None:
    """Agents, a queue, questions, failures, pull requests, ended runs."""
    roof = issue(stage, "barn", 12, "Mend the roof before winter comes")
    hay = issue(stage, "stable", 7, "干し草を数える: count the hay 🐎")
    hand = stage.put("elsewhere", title="Tidy up the yard")
    for task, seconds, outcome in (
        (roof, 90, "success"),
        (roof, 210, "crash"),
        (hay, 33, "success"),
    ):
        end_run(stage, task, seconds, outcome)
    for task, used in ((roof, 81_200), (hay, 950), (hand, 2_400_000)):
        run = stage.start(task)
        values = {"input_tokens": used, "output_tokens": 0, "usd": used / 1e5}
        with stage.store.write(*ADMISSION_SCOPES) as tx:
            assert change_run(
                tx, run.run, fence=run.fence, states=[RunState.RUNNING], values=values
            )
        stage.clock.advance(100)
    for number in range(20, 32):
        issue(stage, ("barn", "stable", "field")[number % 3], number, f"Paint wall {number}")
        stage.clock.advance(61)
    wake = format_timestamp(stage.clock.now() + timedelta(minutes=30))
    issue(stage, "field", 40, "Wait for rain", state=TaskState.PARKED, wake_at=wake, attempt=2)
    ask = "Shall the old fence stay where it is, or may it be moved by a hand's breadth?"
    issue(
        stage, "barn", 3, "Move the fence", state=TaskState.NEEDS_INPUT, question=ask, pr_number=5
    )
    issue(
        stage, "field", 4, "Dig a well", state=TaskState.FAILED, reason="The tests failed thrice."
    )
    issue(stage, "stable", 5, "Shoe the mare", state=TaskState.BLOCKED, reason="History changed.")
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        for number, status in ((5, PullStatus.AWAITING_FEEDBACK), (8, PullStatus.BLOCKED)):
            row = PullRow("octo/barn", number, 12, roof.id, "agent/12", status, "c0ffee" * 6, 2)
            add_pull(tx, row)
        pause(tx, project_scope("field"), "ann", "harvest")
        park(tx, "p", stage.clock.now() + timedelta(hours=1), "used up")
    stage.clock.advance(5)


def end_run(stage: Stage, task: Any, seconds: float, outcome: str) -> None:
    now = stage.clock.now()
    values = {
        "state": "ended",
        "outcome": outcome,
        "running_at": format_timestamp(now - timedelta(seconds=seconds)),
        "exited_at": format_timestamp(now),
        "ended_at": format_timestamp(now),
    }
    with stage.store.write(*ADMISSION_SCOPES) as tx:
        run = admit_run(tx, NewRun(task.id, task.project, "work", "helper", "command", "p"))
        assert change_run(tx, run.run, fence=run.fence, states=[run.state], values=values)


def look(stage: Stage) -> dict[str, Any]:
    """What programs get, with names of runs that are the same each time."""
    with stage.store.read() as tx:
        seen = read_snapshot(tx, stage.inputs(), lambda _run: None).as_json()
    for at, one in enumerate(seen["at_work"]):
        one["run"] = f"run-{at}"
    return seen


@cache
def _seen(full: bool) -> dict[str, Any]:
    with farm() as stage:
        if full:
            populate(stage)
        return look(stage)


def seen(full: bool = True) -> dict[str, Any]:
    """The snapshot of the farm, or of an empty one."""
    return copy.deepcopy(_seen(full))


def news(full: bool = True, **more: Any) -> ScreenData:
    return ScreenData(seen(full), zone=UTC, **more)


WORDS = st.text(max_size=60) | st.sampled_from(
    [
        "\x1b[2J\x1b]0;mine\x07",
        "[red]x[/red]",
        "‮gnitteg",
        "é́́",
        "👩‍👩‍👧‍👦️",
        "漢字" * 40,
        "\t\n\r\x00\x85",
    ]
)


@st.composite
def wild_news(draw: st.DrawFn) -> ScreenData:
    """The farm with any words in it, in any place where other people write."""
    found = seen(draw(st.booleans()))
    _replace(found, draw)
    if draw(st.booleans()):
        found["service"] = None
    for name in ("at_work", "queue", "needs_person", "pulls"):
        found[name] = found[name][: draw(st.integers(0, 12))]
    log = tuple(draw(st.lists(WORDS, max_size=4)))
    trouble = draw(st.just("") | WORDS)
    known = found if draw(st.integers(0, 5)) else None
    return ScreenData(known, draw(st.floats(0, 1e7)), trouble, log, draw(st.integers(0, 9)), UTC)


def _replace(value: Any, draw: st.DrawFn) -> None:
    if isinstance(value, list):
        for one in value:
            _replace(one, draw)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key in FREE and isinstance(one, str) and draw(st.integers(0, 3)) == 0:
                value[key] = draw(WORDS)
            elif isinstance(one, Mapping | list):
                _replace(one, draw)
