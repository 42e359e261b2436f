"""What the work is: prompts, turns, what follows from a run, and the way to a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostler.lazily import parts_of

if TYPE_CHECKING:
    from hostler.flows.arrivals import start_now, take_in
    from hostler.flows.assigning import Folders, assignment_for
    from hostler.flows.closing import Ending, close_run, failed
    from hostler.flows.dependencies import refresh_dependencies
    from hostler.flows.desk import Desk
    from hostler.flows.finishing import Stage
    from hostler.flows.material import Material, gather, still_there, waiting, with_conversation
    from hostler.flows.outcomes import Facts, after_run
    from hostler.flows.settling import settled
    from hostler.flows.status import publish, status_text
    from hostler.flows.trouble import after_trouble
    from hostler.flows.turns import Turn, begin_turn, forget, resume_finishing, take_back, turn_of
    from hostler.flows.workplace import set_up

__all__ = [
    "Desk",
    "Ending",
    "Facts",
    "Folders",
    "Material",
    "Stage",
    "Turn",
    "after_run",
    "after_trouble",
    "assignment_for",
    "begin_turn",
    "close_run",
    "failed",
    "forget",
    "gather",
    "publish",
    "refresh_dependencies",
    "resume_finishing",
    "set_up",
    "settled",
    "start_now",
    "status_text",
    "still_there",
    "take_back",
    "take_in",
    "turn_of",
    "waiting",
    "with_conversation",
]

__getattr__ = parts_of(
    __name__,
    {
        "Desk": "desk",
        "Ending": "closing",
        "Facts": "outcomes",
        "Folders": "assigning",
        "Material": "material",
        "Stage": "finishing",
        "Turn": "turns",
        "after_run": "outcomes",
        "after_trouble": "trouble",
        "assignment_for": "assigning",
        "begin_turn": "turns",
        "close_run": "closing",
        "failed": "closing",
        "forget": "turns",
        "gather": "material",
        "publish": "status",
        "refresh_dependencies": "dependencies",
        "resume_finishing": "turns",
        "set_up": "workplace",
        "settled": "settling",
        "start_now": "arrivals",
        "status_text": "status",
        "still_there": "material",
        "take_back": "turns",
        "take_in": "arrivals",
        "turn_of": "turns",
        "waiting": "material",
        "with_conversation": "material",
    },
)
