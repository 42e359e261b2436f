"""The pages about gates and states name every gate, and every state, that there is."""

from __future__ import annotations

import re
from pathlib import Path

from hostler.service.scheduling.explain import GATES
from hostler.store.tasks import TaskState
from hostler.task_states import TASK_STATES

DOCS = Path(__file__).parents[2] / "docs"


def names_in_first_column(page: str) -> list[str]:
    """Return the code words in the first column of all tables of a page."""
    rows = re.findall(r"^\| (`[^|]*) \|", (DOCS / page).read_text(), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([a-z_]+)`", row)]


def test_the_page_about_waiting_tasks_explains_every_gate():
    listed = names_in_first_column("how-to/find-out-why-a-task-waits.md")
    assert sorted(listed) == sorted(gate.name for gate in GATES)


def test_the_page_about_the_service_lists_gates_in_the_order_of_evaluation():
    text = (DOCS / "internals/service.md").read_text()
    positions = [text.index(f"| `{gate}`") for gate in ("time", "paused", "drain", "disk")]
    assert positions == sorted(positions)


def test_every_state_of_a_task_has_texts_and_a_row_in_the_page_of_states():
    assert set(TASK_STATES) == set(TaskState)
    assert len({info.label for info in TASK_STATES.values()}) == len(TASK_STATES)
    listed = names_in_first_column("reference/states.md")
    assert {state.value for state in TaskState} <= set(listed)
