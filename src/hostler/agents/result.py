"""The agent contract: the model of result.json, reading and writing it, and the DONE file."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from hostler.agents.agent_files import (
    FileProblem,
    NotRegularFile,
    describe_file_type,
    read_regular_file,
)
from hostler.agents.assignment import RESULT_FILE
from hostler.agents.errors import InvalidResult, NotInRun, RunFilesFailed
from hostler.telemetry.redaction import redact

RESULT_VERSION = 1
# The maximum length of comments and pull request descriptions on GitHub.
MAX_TEXT_LENGTH = 65_536
MAX_TITLE_LENGTH = 256
MAX_REPLIES = 200
MAX_ID = 2**63 - 1


class ResultStatus(StrEnum):
    """The status that an agent reports."""

    DONE = "done"
    BLOCKED = "blocked"
    NEEDS_INPUT = "needs_input"


def _reject_nul(text: str) -> str:
    """Reject NUL, which git and databases cannot store, and lone surrogates."""
    if "\x00" in text:
        raise ValueError("no NUL character")
    return text


def _require_one_line(text: str) -> str:
    if len(text.strip().splitlines()) > 1:
        raise ValueError("one line")
    return text.strip()


def _parse_digits(value: object) -> object:
    """Accept a quoted number: agents sometimes quote ids."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value


def _require_text(text: str) -> str:
    if not text.strip():
        raise ValueError("some text")
    return text


LongText = Annotated[str, Field(max_length=MAX_TEXT_LENGTH), AfterValidator(_reject_nul)]
Title = Annotated[
    str,
    Field(max_length=MAX_TITLE_LENGTH),
    AfterValidator(_reject_nul),
    AfterValidator(_require_one_line),
]
CommentId = Annotated[int, BeforeValidator(_parse_digits), Field(ge=1, le=MAX_ID)]


class _ContractModel(BaseModel):
    """Types are strict; unknown keys are ignored for newer versions."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", populate_by_name=True, allow_inf_nan=False
    )


class ResultReply(_ContractModel):
    """An answer to one comment."""

    comment_id: CommentId = Field(validation_alias=AliasChoices("comment_id", "in_reply_to"))
    body: Annotated[LongText, AfterValidator(_require_text)]


class AgentResult(_ContractModel):
    """What an agent reports about its run."""

    version: Annotated[int, Field(ge=RESULT_VERSION, le=RESULT_VERSION)] = RESULT_VERSION
    status: Annotated[ResultStatus, Field(strict=False)]
    summary: LongText = ""
    pr_title: Title = ""
    pr_body: LongText = ""
    commit_message: LongText = ""
    replies: Annotated[tuple[ResultReply, ...], Field(strict=False, max_length=MAX_REPLIES)] = ()
    question: LongText = ""

    @model_validator(mode="after")
    def _says_enough(self) -> AgentResult:
        if self.status is ResultStatus.NEEDS_INPUT and not self.question.strip():
            raise ValueError("question: needs_input needs a question")
        if self.status is ResultStatus.BLOCKED and not (self.question + self.summary).strip():
            raise ValueError("question: blocked needs a reason, in question or summary")
        counts = Counter(reply.comment_id for reply in self.replies)
        if twice := sorted(number for number, count in counts.items() if count > 1):
            raise ValueError(f"replies: one reply per comment; twice: {twice[:5]}")
        return self


def redact_result(result: AgentResult) -> AgentResult:
    """Return a copy with all known secrets redacted: its texts are stored and published."""
    texts = {
        name: _redact_text(getattr(result, name), max_length)
        for name, max_length in _MAX_LENGTHS.items()
    }
    replies = tuple(
        reply.model_copy(update={"body": _redact_text(reply.body, MAX_TEXT_LENGTH)})
        for reply in result.replies
    )
    return result.model_copy(update={**texts, "replies": replies})


_MAX_LENGTHS = {
    "summary": MAX_TEXT_LENGTH,
    "pr_title": MAX_TITLE_LENGTH,
    "pr_body": MAX_TEXT_LENGTH,
    "commit_message": MAX_TEXT_LENGTH,
    "question": MAX_TEXT_LENGTH,
}


def _redact_text(text: str, max_length: int) -> str:
    """Redact a text; the replacement may be longer than the secret."""
    return redact(text)[:max_length]


def parse_result(raw: dict[str, Any]) -> AgentResult | list[str]:
    """Return the result, or every mistake in it with its path."""
    try:
        return AgentResult.model_validate(raw)
    except ValidationError as error:
        return [_describe_error(details) for details in error.errors(include_url=False)]


def _describe_error(details: ErrorDetails) -> str:
    place = ".".join(str(part) for part in details["loc"])
    what = details["msg"].removeprefix("Value error, ")
    if details["type"] == "missing":
        what = "is missing"
    elif details["type"] == "string_unicode":
        what = "must be text that can be written as UTF-8"
    elif details["type"] == "value_error" and place:
        what = f"must have {what}"
    return f"{place}: {what}" if place else what


# Less than all texts at maximum length; no real result comes near it.
MAX_RESULT_BYTES = 1024 * 1024
MAX_PROBLEMS = 10


class ResultFault(StrEnum):
    """How a result can be missing or invalid."""

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


FAULT_SENTENCES: dict[ResultFault, str] = {
    ResultFault.MISSING: "There is no result.json.",
    ResultFault.SYMLINK: "result.json is a symbolic link, which is not followed.",
    ResultFault.NOT_A_FILE: "result.json must be a regular file; it is {found}.",
    ResultFault.UNREADABLE: "result.json cannot be read: {found}.",
    ResultFault.TOO_LARGE: f"result.json may have {MAX_RESULT_BYTES:,} bytes; it has {{found}}.",
    ResultFault.EMPTY: "result.json is empty.",
    ResultFault.NOT_UTF8: "result.json is not valid UTF-8.",
    ResultFault.CUT_OFF: "result.json is incomplete: the end is missing.",
    ResultFault.NOT_JSON: "result.json is not JSON: {found}.",
    ResultFault.TOO_DEEP: "result.json is nested too deeply.",
    ResultFault.NOT_AN_OBJECT: "result.json must contain an object; it contains {found}.",
    ResultFault.NEWER: f"result.json has version {{found}}; this program knows {RESULT_VERSION}.",
    ResultFault.INVALID: "result.json breaks the contract: {found}.",
}


@dataclass(frozen=True, slots=True)
class ResultReading:
    """A result, or why there is no valid one."""

    result: AgentResult | None = None
    fault: ResultFault | None = None
    sentence: str = ""
    problems: tuple[str, ...] = ()

    @property
    def missing(self) -> bool:
        """Return whether there was no result at all, which is not an error by itself."""
        return self.fault is ResultFault.MISSING

    @property
    def wrong(self) -> bool:
        """Return whether there was a result that is invalid."""
        return self.fault is not None and not self.missing


class _UnusableResult(Exception):
    def __init__(self, fault: ResultFault, found: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(fault)
        self.reading = ResultReading(
            None, fault, FAULT_SENTENCES[fault].format(found=found), problems
        )


def read_result(path: Path) -> ResultReading:
    """Read the agent's result file. Never blocks, and reads at most the maximum size."""
    try:
        return parse_result_bytes(read_regular_file(path, MAX_RESULT_BYTES))
    except NotRegularFile as error:
        return _UnusableResult(_FAULTS_BY_FILE_PROBLEM[error.oddity], error.found).reading


def parse_result_bytes(data: bytes) -> ResultReading:
    """Parse and validate the bytes of a result."""
    try:
        return ResultReading(
            redact_result(_validate(_require_object(_parse_json(_decode_text(data)))))
        )
    except _UnusableResult as error:
        return error.reading


_FAULTS_BY_FILE_PROBLEM = {
    FileProblem.MISSING: ResultFault.MISSING,
    FileProblem.SYMLINK: ResultFault.SYMLINK,
    FileProblem.NOT_A_FILE: ResultFault.NOT_A_FILE,
    FileProblem.UNREADABLE: ResultFault.UNREADABLE,
    FileProblem.TOO_LARGE: ResultFault.TOO_LARGE,
}


def _decode_text(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # An incomplete last character means that the file was cut, not another encoding.
        cut = error.reason == "unexpected end of data"
        raise _UnusableResult(ResultFault.CUT_OFF if cut else ResultFault.NOT_UTF8) from None
    if not text.strip():
        raise _UnusableResult(ResultFault.EMPTY)
    return text


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise _UnusableResult(_json_fault(text, error), error.msg) from None
    except RecursionError:
        raise _UnusableResult(ResultFault.TOO_DEEP) from None
    except ValueError:  # a number with thousands of digits
        raise _UnusableResult(ResultFault.NOT_JSON, "a number is too long") from None


def _json_fault(text: str, error: json.JSONDecodeError) -> ResultFault:
    open_string = error.msg.startswith("Unterminated string")
    starts_well = text.lstrip().startswith("{")
    at_the_end = not text[error.pos :].strip()
    return (
        ResultFault.CUT_OFF if starts_well and (open_string or at_the_end) else ResultFault.NOT_JSON
    )


def _reject_constant(name: str) -> NoReturn:
    raise _UnusableResult(ResultFault.NOT_JSON, f"{name} is not a number there")


def _require_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _UnusableResult(ResultFault.NOT_AN_OBJECT, _TYPE_NAMES.get(type(value), "a value"))
    version = value.get("version", RESULT_VERSION)
    if type(version) is int and version > RESULT_VERSION:
        raise _UnusableResult(ResultFault.NEWER, str(version))
    return value


_TYPE_NAMES = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _validate(value: dict[str, Any]) -> AgentResult:
    parsed = parse_result(value)
    if isinstance(parsed, AgentResult):
        return parsed
    problems = tuple(parsed[:MAX_PROBLEMS])
    more = f"; and {len(parsed) - len(problems)} more" if len(parsed) > len(problems) else ""
    raise _UnusableResult(ResultFault.INVALID, "; ".join(problems) + more, problems)


@dataclass(frozen=True, slots=True)
class DoneFile:
    """Whether the DONE file exists; `wrong` is a sentence if something else is at its path."""

    marked: bool = False
    wrong: str = ""


def read_done(path: Path) -> DoneFile:
    """Check the DONE file without following or opening it."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return DoneFile()
    except OSError as error:
        return DoneFile(wrong=f"DONE cannot be read: {error.strerror}.")
    if stat.S_ISREG(mode):
        return DoneFile(marked=True)
    found = "a symbolic link" if stat.S_ISLNK(mode) else describe_file_type(mode)
    return DoneFile(wrong=f"DONE must be a regular file; it is {found}.")


def write_done(path: Path) -> None:
    """Create the DONE file; an existing one is not changed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o600))


def write_result(
    variables: Mapping[str, str], words: Mapping[str, Any]
) -> tuple[Path, AgentResult]:
    """Write the result of the current run. A later call replaces it."""
    path = _find_result_path(variables)
    result = parse_result({"version": 1, **{name: value for name, value in words.items() if value}})
    if not isinstance(result, AgentResult):
        raise InvalidResult(result)
    data = (result.model_dump_json(indent=2) + "\n").encode()
    if len(data) > MAX_RESULT_BYTES:
        raise InvalidResult(
            [f"all together: {len(data):,} bytes; a result may have {MAX_RESULT_BYTES:,}"]
        )
    _write_file(path, data)
    return path, result


def _find_result_path(variables: Mapping[str, str]) -> Path:
    """Return the path of the current run's result."""
    folder = variables.get("HOSTLER_RUN_DIR", "")
    if not folder:
        raise NotInRun("HOSTLER_RUN_DIR is not set")
    if not Path(folder).is_dir():
        raise NotInRun(f"HOSTLER_RUN_DIR is {folder}, which is not a folder")
    return Path(folder) / RESULT_FILE


def parse_replies(given: Iterable[str]) -> list[dict[str, str]]:
    """Parse `ID=TEXT` arguments; all invalid ones are reported."""
    parts = [(word, *word.partition("=")) for word in given]
    wrong = [word for word, number, equals, _ in parts if not (equals and _is_id(number))]
    if wrong:
        raise InvalidResult(
            [f"--reply {word[:60]!r}: must be ID=TEXT with a comment's number" for word in wrong]
        )
    return [{"comment_id": number.strip(), "body": text} for _, number, _, text in parts]


def _is_id(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdigit()


def _write_file(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunFilesFailed(path, error) from error
