"""Texts as they go out: marked with their token, free of secrets, and never too long."""

from __future__ import annotations

import re

from hostler.telemetry.redact import redact

LONGEST_BODY = 65_536
LONGEST_TITLE = 256
NOTE = "*(shortened: the rest did not fit into a comment)*"

_TOKEN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:/+]|-(?!-)){0,119}")
_MARKER = re.compile(r"<!--\s*hostler:action=([A-Za-z0-9._:/+-]{1,120}?)\s*-->")
_PREFIX = re.compile(r"<!--(\s*)hostler:action=")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def check_token(token: str) -> str:
    """A token that can stand in a marker; raises for others."""
    if not _TOKEN.fullmatch(token) or token.endswith("-"):
        raise ValueError(f"not a token: {token!r}")
    return token


def marker(token: str) -> str:
    """The hidden line by which we know our own writes."""
    return f"<!-- hostler:action={check_token(token)} -->"


def tokens_in(body: str) -> list[str]:
    """The tokens of all markers in a text."""
    return _MARKER.findall(body)


def marked(body: str, token: str) -> str:
    """A body ready to be sent: cleaned, cut to GitHub's limit, its marker on the last line."""
    text = _PREFIX.sub(r"<!--\1hostler:quoted=", clean(body)).rstrip()
    tail = f"\n\n{marker(token)}"
    if len(text) + len(tail) > LONGEST_BODY:
        text = _cut(text, LONGEST_BODY - len(tail))
    return text + tail if text else marker(token)


def titled(title: str) -> str:
    """A title ready to be sent: one line, not too long."""
    line = " ".join(clean(title).split()) or "(no title)"
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1] + "…"


def clean(text: str) -> str:
    """A text without secrets, and without characters that cannot be sent or stored."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return redact(whole.replace("\0", ""))


def _cut(text: str, room: int) -> str:
    """The beginning of a text and a note, in `room` characters, outside code and comments."""
    # The longest closing that may become necessary: a comment's end and a fence.
    kept = text[: room - len(NOTE) - 80]
    line_end = kept.rfind("\n")
    if line_end > len(kept) // 2:
        kept = kept[:line_end]
    return f"{kept}{_closing(kept)}\n\n{NOTE}"


def _closing(text: str) -> str:
    comment = "\n-->" if text.rfind("<!--") > text.rfind("-->") else ""
    fence = ""
    for found in _FENCE.findall(text):
        if not fence:
            fence = found
        elif found[0] == fence[0] and len(found) >= len(fence):
            fence = ""
    return comment + (f"\n{fence[:60]}" if fence else "")
