"""Hide secrets in text, in structured values and in streams of bytes.

Every secret that Hostler reads is registered here, and writers pass each finished line through
`redact`. Patterns of well-known tokens cover secrets that were not registered.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from hostler.forks import reset_after_fork

REDACTED = "[redacted]"
# Shorter values would blank out ordinary words; real secrets are longer.
MIN_SECRET_LENGTH = 8
# Deeper (or recursive) structures are written as one text.
MAX_DEPTH = 8
# Larger numbers, NaN and infinity are written as text: many JSON readers reject them.
MAX_NUMBER = 2.0**63

SECRET_PATTERNS = (
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"sk-(?:ant|proj)-[A-Za-z0-9_-]{20,}",
    # Not within a word: `task-list-shows-everything` is a task. But the letters before it may end
    # an escaped line break in JSON, or a colour sequence.
    r"sk-(?:(?<![A-Za-z0-9_-]sk-)|(?<=\\[bfnrt]sk-)|(?<=[0-9;\[]msk-)"
    r"|(?<=\\u[0-9A-Fa-f]{4}sk-)|(?<=\\x[0-9A-Fa-f]{2}sk-))[A-Za-z0-9_-]{20,}",
    r"xox[abprs]-[A-Za-z0-9-]{10,}",
    r"AIza[A-Za-z0-9_-]{30,}",
    # Addresses contain no quotes: what follows one in JSON is not a password.
    r"(?<=://)[^/\s:@\"<>\\]+:[^/\s@\"<>\\]+(?=@)",
    # Only up to the next five dashes: searching to the end from many starts takes too long.
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-(?!----)[^-]*)*-----END [A-Z ]*PRIVATE KEY-----",
)
_ANY_SECRET = re.compile("|".join(SECRET_PATTERNS), re.DOTALL)
# Separate searches: patterns that start with fixed letters are much faster than one alternation.
_COMPILED_PATTERNS = tuple(re.compile(shape, re.DOTALL) for shape in SECRET_PATTERNS)


def looks_like_secret(text: str) -> bool:
    """Return whether a text contains something shaped like a well-known kind of token."""
    return _ANY_SECRET.search(text) is not None


def encoded_forms(secret: str) -> Iterator[str]:
    """Return the encodings in which a secret may appear in a line."""
    raw = secret.encode()
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield repr(raw)[2:-1]
    yield quote(secret)
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield raw.hex()
    yield from _base64_forms(raw)


def _base64_forms(raw: bytes) -> Iterator[str]:
    """Return the part of a secret's base64 form that does not depend on its offset."""
    for before in range(3):
        padded = b"\0" * before + raw
        whole = len(padded) // 3 * 3
        start = 4 if before else 0
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(padded[:whole]).decode()[start:]


def _as_text(value: object) -> str:
    """Return any value as text; logging must never raise."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


class Redactor:
    """Redacts the secrets of this process in text."""

    def __init__(self) -> None:
        self.after_fork()
        reset_after_fork(self)
        self._known: dict[str, frozenset[str]] = {}
        self._pattern = _ANY_SECRET
        self._forms: frozenset[str] = frozenset()

    def after_fork(self) -> None:
        """Reset the lock in a forked child."""
        self._lock = threading.Lock()

    def add(self, secret: str) -> None:
        """Register a secret. Lines of a longer one (a private key) are also redacted separately."""
        with self._lock:
            if secret not in self._known:
                # The first and the last line of all keys are the same.
                lines = (line for line in secret.splitlines() if not line.startswith("-----"))
                parts = {secret, *(line for line in lines if len(line) >= MIN_SECRET_LENGTH)}
                every = (form for part in parts for form in encoded_forms(part))
                self._known[secret] = frozenset(
                    form for form in every if len(form) >= MIN_SECRET_LENGTH
                )
                self._pattern = self._compiled()

    def forget(self, secret: str) -> None:
        """Forget an expired secret: tokens of an App are renewed every hour."""
        with self._lock:
            if self._known.pop(secret, None) is not None:
                self._pattern = self._compiled()

    @property
    def forms(self) -> frozenset[str]:
        """Return all encodings of the registered secrets."""
        return self._forms

    def finds(self, text: str) -> bool:
        """Return whether there is anything to redact; much faster than redacting."""
        if any(form in text for form in self._forms):
            return True
        return any(shape.search(text) for shape in _COMPILED_PATTERNS)

    def _compiled(self) -> re.Pattern[str]:
        self._forms = frozenset(form for found in self._known.values() for form in found)
        longest_first = sorted(self._forms, key=len)
        known = "|".join(re.escape(form) for form in reversed(longest_first))
        both = f"(?:{known})|{_ANY_SECRET.pattern}" if known else _ANY_SECRET.pattern
        return re.compile(both, re.DOTALL)

    def redact(self, text: str) -> str:
        """Return the text without registered or recognised secrets."""
        return self._pattern.sub(REDACTED, text)

    def clean(self, value: object, depth: int = 0) -> Any:
        """Return the value as plain JSON data, with secrets redacted in all parts.

        Texts are cleaned before they are written as JSON inside JSON, where each layer would
        escape a secret once more and no list of forms could be complete.
        """
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and abs(value) < MAX_NUMBER:
            return value
        if depth < MAX_DEPTH and isinstance(value, Mapping):
            return {self.clean(str(k)): self.clean(v, depth + 1) for k, v in value.items()}
        if depth < MAX_DEPTH and isinstance(value, list | tuple | set | frozenset):
            return [self.clean(item, depth + 1) for item in value]
        if isinstance(value, bytes):
            value = value.decode("utf-8", "backslashreplace")
        return self.redact(_as_text(value))


_redactor = Redactor()
register_secret = _redactor.add
unregister_secret = _redactor.forget
redact = _redactor.redact
redact_value = _redactor.clean
contains_secret = _redactor.finds


def registered_forms() -> frozenset[str]:
    """Return all encodings of the secrets of this process."""
    return _redactor.forms


# Context to read on both sides of a part: longer than any recognised secret.
CONTEXT_BYTES = 8192
MASK_BYTE = ord("*")
_LINE_BREAKS = b"\r\n"
_BYTE_PATTERNS = tuple(re.compile(shape.encode(), re.DOTALL) for shape in SECRET_PATTERNS)
# The start of such a secret at the end of the data.
_PARTIAL_SECRET = re.compile(
    rb"(?:gh[pousr]_[A-Za-z0-9]*"
    rb"|github_pat_[A-Za-z0-9_]*"
    rb"|sk-[A-Za-z0-9_-]*"
    rb"|xox[abprs]-[A-Za-z0-9-]*"
    rb"|AIza[A-Za-z0-9_-]*"
    rb"|://[^/\s@\"<>\\]*"
    rb"|-----BEGIN [A-Z ]*"
    rb"(?:-{0,4}|PRIVATE KEY-----[^-]*(?:-(?!----)[^-]*)*"
    rb"(?:-----(?:E|EN|END|END [A-Z ]*-{0,4})?)?))\Z",
    re.DOTALL,
)


@lru_cache(maxsize=4)
def encode_forms(forms: frozenset[str]) -> tuple[bytes, ...]:
    """Return the encodings of secrets as bytes in files."""
    return tuple(form.encode("utf-8", "surrogateescape") for form in sorted(forms))


def context_size(forms: Collection[bytes]) -> int:
    """Return how many bytes around a part must be read, so that no secret is cut."""
    return max([CONTEXT_BYTES, *(len(form) for form in forms)])


def mask_bytes(data: bytes, forms: Collection[bytes]) -> bytes:
    """Redact secrets in bytes, keeping their length and line breaks."""
    covered = bytearray(data)
    for start, end in _find_secrets(data, forms):
        for at in range(start, end):
            if data[at] not in _LINE_BREAKS:
                covered[at] = MASK_BYTE
    return bytes(covered)


def partial_secret_length(data: bytes, forms: Collection[bytes]) -> int:
    """Return how many of the last bytes may be the beginning of an incomplete secret."""
    shape = _PARTIAL_SECRET.search(data, max(len(data) - CONTEXT_BYTES, 0))
    shaped = len(data) - shape.start() if shape else 0
    return max([shaped, *(_partial_form_length(data, form) for form in forms)])


def _partial_form_length(data: bytes, form: bytes) -> int:
    """Return the length of the longest proper prefix of a form at the end of the data."""
    at = max(len(data) - len(form) + 1, 0)
    while (at := data.find(form[:1], at)) >= 0:
        if form.startswith(data[at:]):
            return len(data) - at
        at += 1
    return 0


def _find_secrets(data: bytes, forms: Collection[bytes]) -> Iterator[tuple[int, int]]:
    for form in forms:
        at = data.find(form)
        while at >= 0:
            yield at, at + len(form)
            at = data.find(form, at + 1)
    for shape in _BYTE_PATTERNS:
        for found in shape.finditer(data):
            yield found.span()
