"""What a merged pull request took: one comment, if the settings want it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from workflow_farm import Farm

from hostler.store.runs import Run, RunState, add_run
from hostler.store.tasks import TaskState
from hostler.workflows.comments import render_receipt, run_seconds

RUN = Run(
    "r1",
    "t1",
    "stable",
    1,
    1,
    "work",
    "helper",
    "command",
    "p",
    "f",
    "2026-01-01T00:00:00.000Z",
    state=RunState.ENDED,
    running_at="2026-01-01T00:00:00.000Z",
    exited_at="2026-01-01T01:02:03.000Z",
    input_tokens=12_000,
    output_tokens=340,
    usd=1.25,
)


def test_a_merge_leaves_one_receipt(farm: Farm):
    farm.watch = replace(farm.watch, receipt=True)
    task = farm.walk()
    with farm.store.write("tasks") as tx:
        add_run(tx, replace(RUN, task_id=task.id))
    farm.hub.merge(2)
    for _ in range(2):
        farm.poll()
        farm.send()
    assert farm.task().state is TaskState.DONE
    (said,) = [text for text in farm.texts(2) if "Cost of this pull request" in text]
    assert "| cost | 1.25 USD |" in said and "| agent time | 1 h 2 min |" in said
    assert "12,000 in, 340 out, 0 cached" in said


def test_nobody_who_did_not_ask_gets_one(farm: Farm):
    farm.walk()
    farm.hub.merge(2)
    farm.poll()
    farm.send()
    assert farm.task().state is TaskState.DONE and farm.texts(2) == []


def test_a_close_is_no_merge(farm: Farm):
    farm.watch = replace(farm.watch, receipt=True)
    farm.walk()
    farm.hub.change(2, state="closed")
    farm.poll()
    farm.send()
    assert farm.texts(2) == []


@given(st.lists(st.floats(0, 50), max_size=5))
def test_what_named_no_cost_is_said(costs):
    runs = [replace(RUN, usd=usd) for usd in costs]
    text = render_receipt(runs, 2)
    assert f"{sum(costs):.2f} USD" in text
    assert ("reported no cost" in text) == (0.0 in costs)
    assert render_receipt([replace(RUN, counted=False)], 0).count("| 0 in 0 turns |") == 1


def test_clocks_that_were_set_back_count_as_nothing():
    assert run_seconds(replace(RUN, exited_at="2025-01-01T00:00:00.000Z")) == 0.0
    assert run_seconds(replace(RUN, running_at=None)) == 0.0
