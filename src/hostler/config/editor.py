"""Add or remove one table in the text of a settings file, and replace the file atomically.

All other bytes are kept. The new text is parsed and compared before it is written. The folder is
locked while the file is replaced, and concurrent changes by an editor are detected.
"""

from __future__ import annotations

import copy
import fcntl
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from hostler.clock import Clock
from hostler.config.loader import parse_settings
from hostler.config.reference import format_toml_value
from hostler.errors import HostlerError

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BLANKS = " \t\r\n"
# The last line of a multi-line value contains one of these.
_CLOSING_MARKS = ("]", "}", '"""', "'''")


class StatementKind(Enum):
    """Kinds of statements."""

    BLANK = auto()
    COMMENT = auto()
    HEADER = auto()
    VALUE = auto()


@dataclass(frozen=True, slots=True)
class Statement:
    """One or more whole lines. `path` is the full name of a table or key, else empty."""

    kind: StatementKind
    text: str
    path: tuple[str, ...] = ()

    @property
    def has_content(self) -> bool:
        """Whether it is a header or a value."""
        return self.kind in (StatementKind.HEADER, StatementKind.VALUE)


def parse_statements(text: str) -> Iterator[Statement]:
    """Split a valid text into statements; their joined texts are the text."""
    lines = _LINE.findall(text)
    table: tuple[str, ...] = ()
    start = 0
    while start < len(lines):
        bare = lines[start].strip(_BLANKS)
        if not bare or bare.startswith("#"):
            yield Statement(StatementKind.COMMENT if bare else StatementKind.BLANK, lines[start])
            start += 1
            continue
        end, document = _read_statement(lines, start)
        whole, path = "".join(lines[start:end]), _key_path(document)
        if bare.startswith("["):
            table = path
            yield Statement(StatementKind.HEADER, whole, path)
        else:
            yield Statement(StatementKind.VALUE, whole, table + path)
        start = end


def _read_statement(lines: Sequence[str], start: int) -> tuple[int, dict[str, Any]]:
    """Return the end of the statement that starts here, and its parsed content."""
    for end in range(start + 1, len(lines) + 1):
        if end == start + 1 or any(mark in lines[end - 1] for mark in _CLOSING_MARKS):
            try:
                return end, tomllib.loads("".join(lines[start:end]))
            except tomllib.TOMLDecodeError:
                continue
    raise ValueError(f"line {start + 1}: unterminated value")


def _key_path(document: Any) -> tuple[str, ...]:
    """Return the names down to the first value, or table with several keys."""
    path: list[str] = []
    while isinstance(document, dict) and len(document) == 1:
        ((name, document),) = document.items()
        path.append(name)
    return tuple(path)


_UNCHANGED = "The file was not changed."
TomlDocument = dict[str, Any]


def add_table(text: str, kind: str, name: str, values: Mapping[str, object]) -> str:
    """Append `[kind.name]` to the text. The name is a bare key."""
    wanted = _parse_toml(text)
    if _has_table(wanted, kind, name):
        raise HostlerError(f"[{kind}.{name}] already exists in the settings.", safe=_UNCHANGED)
    newline = "\r\n" if "\r\n" in text else "\n"
    rows = format_table(kind, name, values)
    new = text + _separator(text, newline) + "".join(row + newline for row in rows)
    tables = wanted.setdefault(kind, {})
    if isinstance(tables, dict):
        tables.update(_parse_toml("\n".join(rows))[kind])
    if _parse_or_none(new) != wanted:
        raise HostlerError(
            f"[{kind}.{name}] cannot be added to this text by itself: "
            f"as `{kind}` is written there, no further table can follow.",
            safe=_UNCHANGED,
            remedy=f"Add it by hand: {'; '.join(rows)}",
        )
    return new


def remove_table(text: str, kind: str, name: str) -> str:
    """Remove `[kind.name]`, its inner tables and their comments from the text."""
    wanted = _parse_toml(text)
    if not _has_table(wanted, kind, name):
        raise HostlerError(f"There is no [{kind}.{name}] in the settings.", safe=_UNCHANGED)
    del wanted[kind][name]
    parts = list(parse_statements(text))
    gone = [part.has_content and part.path[:2] == (kind, name) for part in parts]
    kept = _join_kept(parts, _mark_comments(parts, gone))
    found = _parse_or_none(kept)
    if found is None or _without_empty_table(found, kind) != _without_empty_table(wanted, kind):
        raise HostlerError(
            f"[{kind}.{name}] cannot be removed from this text by itself: "
            "other settings share its lines.",
            safe=_UNCHANGED,
            remedy=f"Remove everything of {kind}.{name} by hand.",
        )
    return kept


def format_table(kind: str, name: str, values: Mapping[str, object]) -> list[str]:
    """Format a table as lines of TOML."""
    return [
        f"[{kind}.{name}]",
        *(f"{key} = {format_toml_value(value)}" for key, value in values.items()),
    ]


def _separator(text: str, newline: str) -> str:
    """Return the line breaks between the text and a new table."""
    if not text.strip():
        return ""
    ends = text.endswith("\n")
    is_parted = text.endswith(("\n\n", "\n\r\n"))
    return ("" if ends else newline) + ("" if is_parted else newline)


def _parse_toml(text: str) -> TomlDocument:
    try:
        # Keep floats as text: comparing must lose nothing, and `nan` does not equal itself.
        return tomllib.loads(text, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise HostlerError(
            f"The settings are not plain TOML: {error}.",
            safe=_UNCHANGED,
            remedy="Edit them by hand.",
        ) from error


def _parse_or_none(text: str) -> TomlDocument | None:
    try:
        return tomllib.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        return None


def _has_table(document: TomlDocument, kind: str, name: str) -> bool:
    tables = document.get(kind)
    return isinstance(tables, dict) and name in tables


def _without_empty_table(document: TomlDocument, kind: str) -> TomlDocument:
    """Drop an empty table of tables, which means the same as a missing one."""
    pruned = copy.copy(document)
    if pruned.get(kind) == {}:
        del pruned[kind]
    return pruned


def _mark_comments(parts: Sequence[Statement], gone: Sequence[bool]) -> list[bool]:
    """Extend the removed statements by the comments and blank lines that belong to them."""
    marked = list(gone)
    for start in (at + 1 for at, goes in enumerate(gone) if goes):
        end = _next_statement(parts, start)
        goes_on = end < len(parts) and gone[end]
        own = end if goes_on else _end_of_comments(parts, start, end)
        marked[start:own] = [True] * (own - start)
    return marked


def _next_statement(parts: Sequence[Statement], start: int) -> int:
    rest = range(start, len(parts))
    return next((at for at in rest if parts[at].has_content), len(parts))


def _end_of_comments(parts: Sequence[Statement], start: int, end: int) -> int:
    """Return the end of the comments below a table; those directly above the next one stay."""
    at = start
    while at < end and parts[at].kind is StatementKind.COMMENT:
        at += 1
    return start if at == end < len(parts) else at


def _join_kept(parts: Sequence[Statement], gone: Sequence[bool]) -> str:
    """Join the kept statements; of the blank lines around a removed table, keep one."""
    kept: list[str] = []
    at = 0
    while at < len(parts):
        if not gone[at]:
            kept.append(parts[at].text)
            at += 1
            continue
        is_table = parts[at].kind is StatementKind.HEADER
        while at < len(parts) and gone[at]:
            at += 1
        if is_table and at < len(parts) and parts[at].kind is StatementKind.BLANK:
            at += 1
        elif is_table and at == len(parts) and kept and not kept[-1].strip():
            kept.pop()
    return "".join(kept)


# A change takes milliseconds: a longer wait means that the other process hangs.
LOCK_TIMEOUT_SECONDS = 10.0
_LOCK_RETRY_SECONDS = 0.05

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


TextEdit = Callable[[str], str]


def preview_edit(path: Path, edit: TextEdit) -> None:
    """Raise the errors that `rewrite_file` would raise about the text, without writing."""
    with _translate_os_errors(path):
        _apply_edit(path.read_bytes(), path, edit)


def rewrite_file(path: Path, edit: TextEdit, clock: Clock) -> bool:
    """Apply `edit` to the file's text, and replace the file if the result has no mistakes.

    Return whether anything changed. A byte order mark is kept, but not passed to `edit`.
    """
    with _translate_os_errors(path):
        path.stat()  # fails for broken and circular links
        real = path.resolve()
        with _lock_folder(real.parent, clock):
            return _replace_file(real, path, edit)


def _replace_file(real: Path, shown: Path, edit: TextEdit) -> bool:
    before = real.read_bytes()
    after = _apply_edit(before, shown, edit)
    if after == before:
        return False
    if not os.access(real, os.W_OK):
        raise PermissionError(13, "it is read-only", str(real))
    draft = _write_draft(real, after)
    try:
        if real.read_bytes() != before:
            raise HostlerError(
                f"{shown} was changed by another program in the meantime.",
                safe="That change was kept.",
                remedy="Run the command again.",
            )
        draft.replace(real)
        _sync_folder(real.parent)
    finally:
        draft.unlink(missing_ok=True)
    return True


def _apply_edit(before: bytes, shown: Path, edit: TextEdit) -> bytes:
    """Return the new content; raise HostlerError if it has mistakes."""
    mark = _BYTE_ORDER_MARK if before.startswith(_BYTE_ORDER_MARK) else b""
    try:
        text = before.removeprefix(mark).decode()
    except UnicodeDecodeError as error:
        raise HostlerError(f"{shown} is not UTF-8 text.", safe=_UNCHANGED) from error
    new = edit(text)
    parse_settings(new, shown)
    return mark + new.encode()


def _write_draft(real: Path, content: bytes) -> Path:
    """Write and sync the new content beside the old file, with its mode and owner."""
    # A fixed name: under the lock, an existing draft was left by a killed process.
    draft = real.with_name(f".{real.name}.hostler-new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            old = real.stat()
            file.write(content)
            file.flush()
            with suppress(PermissionError):  # only root can change the owner
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, old.st_mode & 0o7777)
            os.fsync(descriptor)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


@contextmanager
def _translate_os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostlerError(
            f"Cannot change {path}: {error.strerror}.",
            safe=_UNCHANGED,
            remedy="Check the owner, permissions and mount of the file and its folder.",
        ) from error


@contextmanager
def _lock_folder(folder: Path, clock: Clock) -> Iterator[None]:
    """Lock the folder itself, which leaves no lock file behind."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _acquire_lock(descriptor, folder, clock)
        yield
    finally:
        os.close(descriptor)


def _acquire_lock(descriptor: int, folder: Path, clock: Clock) -> None:
    end = clock.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if clock.monotonic() >= end:
                raise HostlerError(
                    f"Another process keeps changing the settings in {folder}.",
                    safe=_UNCHANGED,
                    remedy="Wait until it has finished, and run the command again.",
                ) from None
            clock.wakeup().wait(_LOCK_RETRY_SECONDS)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
