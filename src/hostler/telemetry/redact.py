"""Keep secrets out of everything we write, by their value.

Every secret that Hostler learns is registered here. Writers pass their finished line through
`redact`, so it does not matter on which road a secret came: a field, a nested value, a
traceback, a URL or an encoded header. Shapes of well-known tokens are a second net for those
nobody registered.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from hostler.forks import renew_after_fork

HIDDEN = "[redacted]"
# Shorter values would blank out ordinary words; real secrets are longer.
SHORTEST = 8
# Deeper structures (or ones that hold themselves) are written as one text.
DEEPEST = 8
# Larger numbers (and those that are none) are written as text: JSON readers choke on them.
LARGEST = 2.0**63

SHAPES = (
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"sk-(?:ant|proj)-[A-Za-z0-9_-]{20,}",
    # Not in the middle of a word: `task-list-shows-everything` names a task. But letters before it
    # may end a line break in JSON, or a colour of a terminal.
    r"sk-(?:(?<![A-Za-z0-9_-]sk-)|(?<=\\[bfnrt]sk-)|(?<=[0-9;\[]msk-)"
    r"|(?<=\\u[0-9A-Fa-f]{4}sk-)|(?<=\\x[0-9A-Fa-f]{2}sk-))[A-Za-z0-9_-]{20,}",
    r"xox[abprs]-[A-Za-z0-9-]{10,}",
    r"AIza[A-Za-z0-9_-]{30,}",
    # Quotes are in no address: what follows one in JSON is not its password.
    r"(?<=://)[^/\s:@\"<>\\]+:[^/\s@\"<>\\]+(?=@)",
    # Up to the next five dashes, whatever they begin: a search to the end for each of many
    # beginnings would take for ever.
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-(?!----)[^-]*)*-----END [A-Z ]*PRIVATE KEY-----",
)
_SHAPES = re.compile("|".join(SHAPES), re.DOTALL)
# One after another: a search for what begins with fixed letters is far faster than for any of them.
_EACH_SHAPE = tuple(re.compile(shape, re.DOTALL) for shape in SHAPES)


def looks_secret(text: str) -> bool:
    """Whether a text contains something shaped like a well-known kind of token."""
    return _SHAPES.search(text) is not None


def forms(secret: str) -> Iterator[str]:
    """The ways in which a secret may stand in a line."""
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
    """What stays the same in base64, wherever the secret starts in the encoded text."""
    for before in range(3):
        padded = b"\0" * before + raw
        whole = len(padded) // 3 * 3
        start = 4 if before else 0
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(padded[:whole]).decode()[start:]


def _as_text(value: object) -> str:
    """A value as text, whatever it is: what is logged must never stop the work."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


class Redactor:
    """Knows the secrets of this process and hides them in text."""

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)
        self._known: dict[str, frozenset[str]] = {}
        self._pattern = _SHAPES
        self._forms: frozenset[str] = frozenset()

    def after_fork(self) -> None:
        """Begin with a free lock, whoever held it in the parent."""
        self._lock = threading.Lock()

    def add(self, secret: str) -> None:
        """Learn a secret. Lines of a longer one (a private key) are hidden by themselves too."""
        with self._lock:
            if secret not in self._known:
                # The first and last line of every key are the same, and tell nothing.
                lines = (line for line in secret.splitlines() if not line.startswith("-----"))
                parts = {secret, *(line for line in lines if len(line) >= SHORTEST)}
                every = (form for part in parts for form in forms(part))
                self._known[secret] = frozenset(form for form in every if len(form) >= SHORTEST)
                self._pattern = self._compiled()

    def forget(self, secret: str) -> None:
        """Stop looking for a secret that has expired: tokens of an App are renewed every hour."""
        with self._lock:
            if self._known.pop(secret, None) is not None:
                self._pattern = self._compiled()

    @property
    def forms(self) -> frozenset[str]:
        """All ways in which the secrets that are known may stand somewhere."""
        return self._forms

    def finds(self, text: str) -> bool:
        """Whether there is anything to hide; much faster than hiding it."""
        if any(form in text for form in self._forms):
            return True
        return any(shape.search(text) for shape in _EACH_SHAPE)

    def _compiled(self) -> re.Pattern[str]:
        self._forms = frozenset(form for found in self._known.values() for form in found)
        longest_first = sorted(self._forms, key=len)
        known = "|".join(re.escape(form) for form in reversed(longest_first))
        both = f"(?:{known})|{_SHAPES.pattern}" if known else _SHAPES.pattern
        return re.compile(both, re.DOTALL)

    def redact(self, text: str) -> str:
        """The text without any secret we know or recognise."""
        return self._pattern.sub(HIDDEN, text)

    def clean(self, value: object, depth: int = 0) -> Any:
        """A value made of plain JSON parts alone, with no secret in any of them.

        Texts are cleaned before they are written as JSON inside JSON, where each layer would
        escape a secret once more and no list of forms could be complete.
        """
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and abs(value) < LARGEST:
            return value
        if depth < DEEPEST and isinstance(value, Mapping):
            return {self.clean(str(k)): self.clean(v, depth + 1) for k, v in value.items()}
        if depth < DEEPEST and isinstance(value, list | tuple | set | frozenset):
            return [self.clean(item, depth + 1) for item in value]
        if isinstance(value, bytes):
            value = value.decode("utf-8", "backslashreplace")
        return self.redact(_as_text(value))


_process = Redactor()
remember_secret = _process.add
forget_secret = _process.forget
redact = _process.redact
clean = _process.clean
finds_secret = _process.finds


def known_forms() -> frozenset[str]:
    """All ways in which secrets of this process may stand somewhere."""
    return _process.forms
