"""Nothing leaves the house when somebody else has gone on with the task."""

from __future__ import annotations

from dataclasses import replace

import pytest
from workflow_farm import said

from hostler.runs.states import FenceLost
from hostler.workflows.finish import finish_run


@pytest.fixture
def replaced(farm):
    """A farm whose work is no longer its own."""

    def refuse():
        raise FenceLost("r1", 1, "ours", "it is ended")

    farm.desk = replace(farm.desk, require_fence=refuse)
    return farm


@pytest.mark.parametrize("status", ["done", "blocked"])
def test_neither_work_nor_a_checkpoint_is_pushed(replaced, status):
    replaced.file("Crash on start", "ann", "agent:bugfix")
    replaced.poll()
    task, checkout = replaced.begin()
    replaced.git.commit(checkout.path, "fix.py", "fixed = True\n")
    before = replaced.branches()
    with pytest.raises(FenceLost):
        finish_run(replaced.desk, task, said(status, summary="So it is."))
    assert replaced.branches() == before
