"""Whether a service is to be asked, and the line to it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from hostler import __version__
from hostler.config.settings import Settings
from hostler.service.presence import Presence, presence
from hostler.web.client.line import Line, NotTaken
from hostler.web.keys import known_token
from hostler.web.likeness import likeness
from hostler.web.notes import Note, known_note


def line_to_service(
    home: Path, settings: Settings, environment: Mapping[str, str], by: str
) -> Line | None:
    """A line to the service of a home, if it would do just what we would; else None."""
    note = known_note(home)
    if note is None or not is_to_be_asked(note, presence(home), socket.gethostname()):
        return None
    token = known_token(settings.web, home, environment)
    return _like_us(Line(note.url, token.value, by), likeness(home, settings)) if token else None


def is_to_be_asked(note: Note, who: Presence, host: str, version: str = __version__) -> bool:
    """Whether a note is of the service that works on the home, here, in our version. Pure."""
    holder = who.holder
    return (
        holder is not None
        and who.takes_tasks
        and (holder.pid, holder.host) == (note.pid, host)
        and note.version == version
        and is_of_this_machine(note.url)
    )


def is_of_this_machine(url: str) -> bool:
    """Whether an address leads nowhere else: the token must not."""
    try:
        place = urlsplit(url)
        return (
            place.scheme == "http"
            and bool(place.port)
            and place.username is None
            and ip_address(place.hostname or "").is_loopback
        )
    except ValueError:
        return False


def _like_us(line: Line, ours: str) -> Line | None:
    try:
        if line.likeness() == ours:
            return line
    except NotTaken:
        pass
    line.close()
    return None
