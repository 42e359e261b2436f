"""Rules: what becomes of a run, by all that can be seen of it. Touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hostler.store.runs import RunState


class Action(StrEnum):
    """What is to be done with a run that somebody else may have begun."""

    NOTHING = "nothing"
    ADOPT = "adopt"
    NEVER_STARTED = "never_started"
    CONCLUDE = "conclude"
    SWEEP = "sweep"
    LEAVE_ALONE = "leave_alone"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What can be seen of a run from outside.

    `shim_alive`: its supervisor lives. `last_word`: it left one. `agent_traced`: something says
    that there was, or may have been, an agent. `within_reach`: what is left of it could be found.
    """

    shim_alive: bool
    last_word: bool = False
    agent_traced: bool = False
    within_reach: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do; `stop`: somebody asked for the end, which must be said again or believed."""

    action: Action
    stop: bool = False


def decide(state: RunState, seen: Evidence, *, stopped: bool) -> Decision:
    """The table of docs/runs.md, row by row."""
    if state is RunState.ENDED:
        return Decision(Action.NOTHING)
    if state in {RunState.EXITED, RunState.FINISHING}:
        return Decision(Action.FINISH, stopped)
    return Decision(_of_a_live_row(seen), stopped)


def _of_a_live_row(seen: Evidence) -> Action:
    if seen.shim_alive:
        return Action.ADOPT
    if seen.last_word:
        return Action.CONCLUDE
    if not seen.agent_traced:
        return Action.NEVER_STARTED
    return Action.SWEEP if seen.within_reach else Action.LEAVE_ALONE
