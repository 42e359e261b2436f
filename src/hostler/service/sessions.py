"""Which conversation a run goes on with. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.agents.kinds import KINDS
from hostler.store.runs import Run
from hostler.store.tasks import Task


def session_for(task: Task, run: Run, runs: Sequence[Run]) -> str:
    """The task's session, if it is one of this run's agent; empty: a new one.

    A conversation with one program means nothing to another, or to the same one of another name:
    its account may be a different one. A name that its program gives to no session is none.
    """
    if not task.session or not _can_be(task.session, run.agent_kind):
        return ""
    its = [one for one in runs if one.session == task.session and one.run != run.run]
    last = max(its, key=lambda one: one.fence, default=None)
    same = last is not None and (last.agent, last.agent_kind) == (run.agent, run.agent_kind)
    return task.session if same else ""


def _can_be(session: str, agent_kind: str) -> bool:
    kind = KINDS.get(agent_kind)
    return kind is None or kind.program is None or kind.program.names_session(session)
