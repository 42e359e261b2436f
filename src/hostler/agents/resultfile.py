"""Reading `result.json` from a run folder, where an agent may have put anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from hostler.agents.plainfile import NotPlain, Oddity, read_plain
from hostler.agents.result import VERSION, Result, parse, without_secrets

FILE_NAME = "result.json"
# Room for every text at its longest would be more; no honest result comes near this.
LARGEST = 1024 * 1024
MOST_PROBLEMS = 10


class Fault(StrEnum):
    """The ways in which a result can be missing or wrong."""

    MISSING = "missing"
    SYMLINK = "symlink"
    NOT_A_FILE = "not_a_file"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    EMPTY = "empty"
    NOT_UTF8 = "not_utf8"
    CUT_OFF = "cut_off"
    NOT_JSON = "not_json"
    TOO_DEEP = "too_deep"
    NOT_AN_OBJECT = "not_an_object"
    NEWER = "newer"
    INVALID = "invalid"


SENTENCES: dict[Fault, str] = {
    Fault.MISSING: "There is no result.json.",
    Fault.SYMLINK: "result.json is a symbolic link, which is not followed.",
    Fault.NOT_A_FILE: "result.json must be a regular file; it is {found}.",
    Fault.UNREADABLE: "result.json cannot be read: {found}.",
    Fault.TOO_LARGE: f"result.json may have {LARGEST:,} bytes; it has {{found}}.",
    Fault.EMPTY: "result.json is empty.",
    Fault.NOT_UTF8: "result.json is not text in UTF-8.",
    Fault.CUT_OFF: "result.json ends in the middle: it was not written whole.",
    Fault.NOT_JSON: "result.json is not JSON: {found}.",
    Fault.TOO_DEEP: "result.json is nested too deeply.",
    Fault.NOT_AN_OBJECT: "result.json must hold an object; it holds {found}.",
    Fault.NEWER: f"result.json has version {{found}}; this program knows {VERSION}.",
    Fault.INVALID: "result.json breaks the contract: {found}.",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A result, or why there is none that can be used."""

    result: Result | None = None
    fault: Fault | None = None
    sentence: str = ""
    problems: tuple[str, ...] = ()

    @property
    def missing(self) -> bool:
        """The agent said nothing at all, which is no mistake by itself."""
        return self.fault is Fault.MISSING

    @property
    def wrong(self) -> bool:
        """The agent said something that cannot be used."""
        return self.fault is not None and not self.missing


class _Wrong(Exception):
    def __init__(self, fault: Fault, found: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(fault)
        self.reading = Reading(None, fault, SENTENCES[fault].format(found=found), problems)


def read_result(path: Path) -> Reading:
    """What the agent left there. Never blocks, never reads more than a result may have."""
    try:
        return read_bytes(read_plain(path, LARGEST))
    except NotPlain as error:
        return _Wrong(_ODDITIES[error.oddity], error.found).reading


def read_bytes(data: bytes) -> Reading:
    """What these bytes say, if they keep the contract."""
    try:
        return Reading(without_secrets(_validated(_object(_json(_text(data))))))
    except _Wrong as error:
        return error.reading


_ODDITIES = {
    Oddity.MISSING: Fault.MISSING,
    Oddity.SYMLINK: Fault.SYMLINK,
    Oddity.NOT_A_FILE: Fault.NOT_A_FILE,
    Oddity.UNREADABLE: Fault.UNREADABLE,
    Oddity.TOO_LARGE: Fault.TOO_LARGE,
}


def _text(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A character that lacks its last bytes is a cut, not another encoding.
        cut = error.reason == "unexpected end of data"
        raise _Wrong(Fault.CUT_OFF if cut else Fault.NOT_UTF8) from None
    if not text.strip():
        raise _Wrong(Fault.EMPTY)
    return text


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _Wrong(_cut_or_garbage(text, error), error.msg) from None
    except RecursionError:
        raise _Wrong(Fault.TOO_DEEP) from None
    except ValueError:  # a number with thousands of digits
        raise _Wrong(Fault.NOT_JSON, "a number is too long") from None


def _cut_or_garbage(text: str, error: json.JSONDecodeError) -> Fault:
    open_string = error.msg.startswith("Unterminated string")
    starts_well = text.lstrip().startswith("{")
    at_the_end = not text[error.pos :].strip()
    return Fault.CUT_OFF if starts_well and (open_string or at_the_end) else Fault.NOT_JSON


def _no_constant(name: str) -> NoReturn:
    raise _Wrong(Fault.NOT_JSON, f"{name} is not a number there")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong(Fault.NOT_AN_OBJECT, _IN_WORDS.get(type(value), "a value"))
    version = value.get("version", VERSION)
    if type(version) is int and version > VERSION:
        raise _Wrong(Fault.NEWER, str(version))
    return value


_IN_WORDS = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _validated(value: dict[str, Any]) -> Result:
    parsed = parse(value)
    if isinstance(parsed, Result):
        return parsed
    problems = tuple(parsed[:MOST_PROBLEMS])
    more = f"; and {len(parsed) - len(problems)} more" if len(parsed) > len(problems) else ""
    raise _Wrong(Fault.INVALID, "; ".join(problems) + more, problems)
