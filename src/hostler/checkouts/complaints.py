"""What git says when it fails, as our errors. The one place that reads its wording."""

from __future__ import annotations

import re
from pathlib import Path

from hostler.checkouts.errors import (
    DiskFull,
    GitFailed,
    RemoteDenied,
    RemoteError,
    RemoteMissing,
    RemoteMoved,
    RemoteUnreachable,
)
from hostler.errors import CheckoutError

# Only for commands that talk to a remote; the first match counts.
REMOTE_COMPLAINTS: tuple[tuple[str, type[RemoteError]], ...] = (
    (r"returned error: 30[1278]|from redirection", RemoteMoved),
    (r"returned error: 40[13]|Authentication failed|could not read Username", RemoteDenied),
    (r"Write access to repository not granted|Permission to \S+ denied", RemoteDenied),
    (r"returned error: 404|repository '.*' not found|Repository not found", RemoteMissing),
    (r"does not appear to be a git repository", RemoteMissing),
    (r"Could not resolve (host|proxy)|Failed to connect|Couldn't connect", RemoteUnreachable),
    (r"Connection (refused|reset|timed out)|Operation timed out", RemoteUnreachable),
    (r"returned error: (429|5\d\d)|early EOF|hung up unexpectedly", RemoteUnreachable),
    (
        r"Empty reply from server|RPC failed|SSL (certificate|conn|read)|gnutls_handshake",
        RemoteUnreachable,
    ),
)
NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")


def translate(verb: str, code: int, said: str, url: str, place: Path) -> CheckoutError:
    """The error behind a command that failed."""
    if NO_SPACE.search(said):
        return DiskFull(place)
    if url:
        for pattern, kind in REMOTE_COMPLAINTS:
            if re.search(pattern, said):
                return kind(url, said)
    return GitFailed(verb, code, said)
