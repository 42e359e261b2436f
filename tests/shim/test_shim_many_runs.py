"""Many shims at once."""

from __future__ import annotations

import pytest
from shim_fixture import ShimRuns

from hostler.shim import run_files

TREE = """
child(lambda: (os.setsid(), deaf('tool')))
os.waitpid(child(lambda: (os.setsid(), child(lambda: here('daemon')))), 0)
"""


@pytest.mark.parametrize("each", [4, pytest.param(17, marks=pytest.mark.soak)])
def test_many_shims_at_once_leave_nothing(shim_runs: ShimRuns, each: int):
    """A third exits by itself, a third is stopped, a third loses its agent before go."""
    leaving = [shim_runs.run(TREE, name=f"exit{n}", grace_seconds=0.2) for n in range(each)]
    stopped = [shim_runs.run(TREE + "here('agent')", name=f"stop{n}") for n in range(each)]
    deserted = [shim_runs.run("tell('never')", name=f"eof{n}") for n in range(each)]
    crowd = leaving + stopped + deserted
    for shim in crowd:
        shim.start()
    for shim in crowd:
        shim.ready()
    for shim in leaving + stopped:
        shim.go()
    for shim in deserted:
        shim.process.stdin.close()
    agents = 0
    while agents < len(stopped):
        name = shim_runs.events.next()[0]
        assert name != "never"
        agents += name == "agent"
    for shim in stopped:
        shim.stop(grace=0.2)
    assert {shim.exit_record()["ended_by"] for shim in leaving} == {"exit"}
    assert {shim.exit_record()["ended_by"] for shim in stopped} == {"stop"}
    assert {shim.wait() for shim in deserted} == {3}
    assert not any(run_files.is_locked(shim.folder) for shim in crowd)
    assert not shim_runs.left()
