"""The edge at a run's end: read what the agent left, and judge."""

from __future__ import annotations

from pathlib import Path

from hostler.agents.donefile import read_done
from hostler.agents.exitword import Exit
from hostler.agents.kinds import kind_of
from hostler.agents.launch import DONE, RESULT
from hostler.agents.resultfile import read_result
from hostler.agents.tally import Tally
from hostler.agents.verdict import End, Verdict, judge
from hostler.config.settings import Agent


def conclude(
    agent: Agent,
    run_dir: Path,
    task_dir: Path,
    exit: Exit,
    tally: Tally,
) -> Verdict:
    """The verdict on a run of which no process is left. Reading twice gives the same answer."""
    end = End(
        ended_by=exit.ended_by,
        exit_code=exit.code,
        reason=exit.reason,
        tally=tally,
        result=read_result(run_dir / RESULT),
        done=read_done(task_dir / DONE),
    )
    return judge(end, kind_of(agent).own_word)
