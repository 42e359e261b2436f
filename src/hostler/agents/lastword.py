"""The end of a program that has a stream of its own: one rule for all of them. Pure.

Success needs exit code 0 and the positive last event. A failure is what the last event says by
its numbers and words. What nobody knows is a crash, never a limit.
"""

from __future__ import annotations

from dataclasses import replace

from hostler.agents.exitcodes import by_exit_code
from hostler.agents.outcomes import Outcome
from hostler.agents.tally import Tally
from hostler.agents.verdict import DecidedBy, Verdict
from hostler.wording import as_code

# Of a program's own words, this much stands in ours. They may go to where everybody reads.
LONGEST_SAID = 300
# From here on, an exit code says which signal ended the program.
SIGNALS = 128
UNKNOWN = (
    "Its version may be newer than those that are known: see `hostler agents check`, and try "
    "`hostler agents classify` on the kept stream."
)


def last_word(exit_code: int | None, tally: Tally) -> Verdict:
    """What its program says about its end."""
    ended = tally.finished
    if ended is not None and ended.ok and exit_code == 0:
        return Verdict(Outcome.SUCCESS, DecidedBy.STREAM, "Its last event says that it is done.")
    if ended is not None and not ended.ok:
        return _failed(tally, ended.outcome, ended.text)
    if not tally.said and exit_code is not None and 0 < exit_code < SIGNALS:
        return _never_began(exit_code, tally)
    if exit_code == 0:
        why = f"It exited with 0, but without its last event. {UNKNOWN}"
        return Verdict(Outcome.CRASH, DecidedBy.STREAM, why)
    found = by_exit_code(exit_code)
    if ended is not None:
        return replace(found, why=f"{found.why} It had said it was done.")
    return (
        replace(found, why=f"{found.why} {UNKNOWN}")
        if tally.said and (exit_code or 0) > 0
        else found
    )


def _failed(tally: Tally, outcome: Outcome | None, text: str) -> Verdict:
    """A wall that its failing request named comes before the number that the request ended with."""
    fault = tally.fault.reason if tally.fault else None
    found = fault if fault is Outcome.QUOTA or outcome is None else outcome
    said = as_code(text, LONGEST_SAID)
    if found is None:
        told = f"It says that it failed, in words that are not known: {said}. {UNKNOWN}"
        return Verdict(Outcome.CRASH, DecidedBy.STREAM, told)
    return Verdict(found, DecidedBy.STREAM, in_its_words(text, found))


def in_its_words(text: str, outcome: Outcome) -> str:
    """Why a program failed, as it says itself; else only how."""
    if not text.strip():
        return f"It says that it ended with {outcome}."
    return f"It says: {as_code(text, LONGEST_SAID)}"


def _never_began(exit_code: int, tally: Tally) -> Verdict:
    why = f"It ended with {exit_code} before it began"
    said = f": {as_code(tally.aside, LONGEST_SAID)}" if tally.aside.strip() else "."
    return Verdict(Outcome.CONFIG, DecidedBy.EXIT_CODE, f"{why}{said}")
