"""What an agent's stream says, one typed event at a time."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.agents.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Started:
    """The agent's program is at work."""

    program: str = ""
    version: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """The conversation's name, with which a later run can go on."""

    id: str


@dataclass(frozen=True, slots=True)
class Text:
    """Something the agent says. `delta`: it goes on where the last one ended."""

    text: str
    delta: bool = False


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The agent uses a tool."""

    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Retrying:
    """The agent's program waits and asks its provider again. A state, never a verdict."""

    reason: Outcome
    seconds: float = 0.0
    status: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `total`: of the whole run so far; otherwise in addition to earlier ones.

    `input_tokens` are all that a model read; `cached_tokens` those of them that its provider had in
    a cache. Programs that tell them apart are added up, so that it means the same for each.
    `of` names the message they were spent on: what is said of the same message again replaces
    what was said before.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    total: bool = False
    of: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """Money. `total`: of the whole run so far; otherwise in addition to earlier ones."""

    usd: float
    total: bool = False


@dataclass(frozen=True, slots=True)
class LimitSignal:
    """The provider limits us: which way, and until when as far as it says.

    `resets_at` is a UTC timestamp as everywhere; empty where the provider names none.
    `clock_time`: when it ends by the clock of this machine, as the program wrote it. `person`:
    only somebody who pays can open it again. `one_model`: other models of the account go on.
    """

    reason: Outcome
    status: int = 0
    retry_after_seconds: float = 0.0
    resets_at: str = ""
    person: bool = False
    clock_time: str = ""
    one_model: bool = False


@dataclass(frozen=True, slots=True)
class Headroom:
    """The provider says how much of its limit is used up, whether or not it refuses anything.

    `utilisation` is a part of one; `resets_at` a UTC timestamp, empty where none is named.
    """

    utilisation: float
    resets_at: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """What the program says of a request that failed for good. A state: its last word decides."""

    reason: Outcome
    status: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The last word of the agent's program. `outcome` is empty where it names no class."""

    ok: bool
    outcome: Outcome | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Noise:
    """A line that is not in the stream's form: kept for people, never judged.

    `aside`: it was written beside the stream, on standard error.
    """

    text: str
    aside: bool = False


Event = (
    Started
    | Session
    | Text
    | ToolUse
    | Retrying
    | Usage
    | Cost
    | LimitSignal
    | Headroom
    | Fault
    | Finished
    | Noise
)
