"""The agent contract: what `result.json` may say."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Annotated, Any

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

from hostler.telemetry.redact import redact

VERSION = 1
# The longest text that GitHub takes as a comment or a pull request's description.
LONGEST_TEXT = 65_536
LONGEST_TITLE = 256
MOST_REPLIES = 200
LARGEST_ID = 2**63 - 1


class Status(StrEnum):
    """What an agent says about its work."""

    DONE = "done"
    BLOCKED = "blocked"
    NEEDS_INPUT = "needs_input"


def _printable(text: str) -> str:
    """Neither git nor databases take a NUL; a lone surrogate cannot be written at all."""
    if "\x00" in text:
        raise ValueError("no NUL character")
    return text


def _one_line(text: str) -> str:
    if len(text.strip().splitlines()) > 1:
        raise ValueError("one line")
    return text.strip()


def _digits(value: object) -> object:
    """Agents quote ids now and then; the number is the same."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("some text")
    return text


LongText = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_printable)]
Title = Annotated[
    str, Field(max_length=LONGEST_TITLE), AfterValidator(_printable), AfterValidator(_one_line)
]
CommentId = Annotated[int, BeforeValidator(_digits), Field(ge=1, le=LARGEST_ID)]


class _Part(BaseModel):
    """Types are strict; keys that we do not know are left to newer programs."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", populate_by_name=True, allow_inf_nan=False
    )


class Reply(_Part):
    """An answer to one comment."""

    comment_id: CommentId = Field(validation_alias=AliasChoices("comment_id", "in_reply_to"))
    body: Annotated[LongText, AfterValidator(_filled)]


class Result(_Part):
    """What an agent says about its run."""

    version: Annotated[int, Field(ge=VERSION, le=VERSION)] = VERSION
    status: Annotated[Status, Field(strict=False)]
    summary: LongText = ""
    pr_title: Title = ""
    pr_body: LongText = ""
    commit_message: LongText = ""
    replies: Annotated[tuple[Reply, ...], Field(strict=False, max_length=MOST_REPLIES)] = ()
    question: LongText = ""

    @model_validator(mode="after")
    def _says_enough(self) -> Result:
        if self.status is Status.NEEDS_INPUT and not self.question.strip():
            raise ValueError("question: needs_input needs a question")
        if self.status is Status.BLOCKED and not (self.question + self.summary).strip():
            raise ValueError("question: blocked needs a reason, in question or summary")
        counts = Counter(reply.comment_id for reply in self.replies)
        if twice := sorted(number for number, count in counts.items() if count > 1):
            raise ValueError(f"replies: one reply per comment; twice: {twice[:5]}")
        return self


def without_secrets(result: Result) -> Result:
    """The same with every secret that we know hidden: its words are stored, and go out as ours."""
    texts = {name: hidden(getattr(result, name), longest) for name, longest in _TEXTS.items()}
    replies = tuple(
        reply.model_copy(update={"body": hidden(reply.body, LONGEST_TEXT)})
        for reply in result.replies
    )
    return result.model_copy(update={**texts, "replies": replies})


_TEXTS = {
    "summary": LONGEST_TEXT,
    "pr_title": LONGEST_TITLE,
    "pr_body": LONGEST_TEXT,
    "commit_message": LONGEST_TEXT,
    "question": LONGEST_TEXT,
}


def hidden(text: str, longest: int) -> str:
    """A text without secrets; what stands for one may be longer than it was."""
    return redact(text)[:longest]


def parse(raw: dict[str, Any]) -> Result | list[str]:
    """The result, or every mistake in it, each with its place."""
    try:
        return Result.model_validate(raw)
    except ValidationError as error:
        return [_sentence(details) for details in error.errors(include_url=False)]


def _sentence(details: ErrorDetails) -> str:
    place = ".".join(str(part) for part in details["loc"])
    what = details["msg"].removeprefix("Value error, ")
    if details["type"] == "missing":
        what = "is missing"
    elif details["type"] == "string_unicode":
        what = "must be text that can be written as UTF-8"
    elif details["type"] == "value_error" and place:
        what = f"must have {what}"
    return f"{place}: {what}" if place else what
