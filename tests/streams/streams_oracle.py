"""What must have been handled, by the host's own history; and what was, by the database's ledger.

Nothing here reads a cursor, a chain, or any code of the feeds but the form of their keys.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from streams_host import COMMENT, LINE, REVIEW, Eyes, Host, Version
from streams_people import ALLOWED

from hostler.forge.actions import CreateComment, ReplyToReviewComment, find_tokens
from hostler.forge.outbox.queue import build_token
from hostler.forge.port import SurfaceFeed

# What the feeds promise for a thread that they have not read for a while.
BACKFILL = timedelta(days=1) - timedelta(minutes=10)
WIDE = {SurfaceFeed.ISSUE_COMMENTS: COMMENT.value, SurfaceFeed.REVIEW_COMMENTS: LINE.value}
NARROW = {
    SurfaceFeed.THREAD_COMMENTS: COMMENT.value,
    SurfaceFeed.THREAD_REVIEW_COMMENTS: LINE.value,
}
KINDS = "('issue_comment', 'review_comment', 'review')"

# Written inside of each transaction, so that what is undone is not in it.
LEDGER = """
CREATE TABLE ledger (what TEXT NOT NULL, key TEXT NOT NULL);
CREATE TRIGGER ledger_new AFTER INSERT ON inbox
  BEGIN INSERT INTO ledger VALUES ('noticed', NEW.event_key); END;
CREATE TRIGGER ledger_consumed AFTER UPDATE OF consumed_at ON inbox
  WHEN NEW.consumed_at IS NOT NULL
  BEGIN INSERT INTO ledger VALUES ('consumed', NEW.event_key); END;
CREATE TRIGGER ledger_heard AFTER INSERT ON feedback_events
  BEGIN INSERT INTO ledger VALUES ('heard', NEW.event_key); END;
CREATE TRIGGER ledger_answered AFTER UPDATE OF processed_at ON feedback_events
  WHEN NEW.processed_at IS NOT NULL
  BEGIN INSERT INTO ledger VALUES ('answered', NEW.event_key); END;
CREATE TRIGGER ledger_task AFTER INSERT ON tasks
  BEGIN INSERT INTO ledger VALUES ('task', NEW.issue_number || ' ' || NEW.flow); END;
CREATE TRIGGER ledger_write AFTER INSERT ON outbox
  BEGIN INSERT INTO ledger VALUES ('write', NEW.token); END;
CREATE TRIGGER ledger_sent AFTER UPDATE OF state ON outbox
  WHEN NEW.state = 'sent' AND OLD.state <> 'sent'
  BEGIN INSERT INTO ledger VALUES ('sent', NEW.token); END;
"""


class Wrong(Exception):
    """What a stream has come to, and must not."""


@dataclass
class Oracle:
    """`required`: visible throughout a completed poll that read its list, at the least."""

    host: Host
    threads: bool
    page: int
    required: set[Version] = field(default_factory=set)
    possible: set[Version] = field(default_factory=set)
    polls: int = 0
    _read: set[int] = field(default_factory=set)
    _known: set[int] = field(default_factory=set)

    def polled(self, eyes: Eyes, differences: tuple[str, ...]) -> None:
        """A poll came through."""
        self.polls += 1
        if differences:
            raise Wrong(f"shadow mode reports {differences}")
        shown = eyes.throughout or frozenset()
        wide = {WIDE[feed] for feed, _ in eyes.asked if feed in WIDE}
        self.required |= {version for version in shown if version[0] in wide}
        if self.threads:
            self._polled_threads(eyes, shown)

    def _polled_threads(self, eyes: Eyes, shown: Iterable[Version]) -> None:
        asked = {(NARROW[feed], number) for feed, number in eyes.asked if feed in NARROW}
        since = self.host.clock.now() - BACKFILL
        for version in shown:
            kind, number, key = version
            followed = number in self._read or number not in self._known
            pull = number in self.host.pulls
            if (kind, number) in asked and ((followed and pull) or _moment(key) >= since):
                self.required.add(version)
        self._read = {number for _, number in asked}
        self._known |= self._read

    def seen(self, eyes: Eyes) -> None:
        """A poll is over, in whatever way."""
        self.possible |= eyes.sometimes

    def judge(self, path: Path) -> None:
        """Raises `Wrong`."""
        with closing(sqlite3.connect(path)) as database:
            self._keys(database)
            _once(database)
            self._writes(database)
            self._heard(database)

    def _keys(self, database: sqlite3.Connection) -> None:
        """What was handled is what had to be, and nothing that was never there."""
        _none("lost", self.missing(database))
        noticed = _column(database, f"event_key FROM inbox WHERE kind IN {KINDS}")
        _none("made up", noticed - _keys(self.possible))
        _none("ours", noticed & self._ours())
        _none("left", _column(database, "event_key FROM inbox WHERE consumed_at IS NULL"))

    def missing(self, database: sqlite3.Connection) -> set[str]:
        """What had to be noticed and is not."""
        required = _keys(self.required | self._reviews(database)) - self._ours()
        return required - _column(database, f"event_key FROM inbox WHERE kind IN {KINDS}")

    def _reviews(self, database: sqlite3.Connection) -> set[Version]:
        """Of reviews, those that can be seen in the end, where somebody still follows them."""
        followed = set(self._pulls(database))
        if self.threads:
            # Nobody sweeps older pages there.
            followed -= {n for n, rows in self.host.verdicts.items() if len(rows) >= self.page}
        return {one for one in self.host.shown_now() if one[0] == REVIEW and one[1] in followed}

    def _ours(self) -> set[str]:
        """Versions of what we have written ourselves."""
        rows = (row for kind in (COMMENT, LINE) for row in self.host.rows(kind))
        ids = {f":{row['id']}:" for row in rows if row["user"]["login"] == self.host.login}
        known = _keys(self.possible | self.required | self.host.shown_now())
        return {key for key in known if f":{key.split(':')[1]}:" in ids}

    def _pulls(self, database: sqlite3.Connection) -> dict[int, int]:
        """Pull requests that await feedback, and their issues."""
        sql = "SELECT pr_number, issue_number FROM pull_requests WHERE status='awaiting_feedback'"
        return dict(database.execute(sql).fetchall())

    def _writes(self, database: sqlite3.Connection) -> None:
        """Each write is on the host once."""
        sql = "SELECT token || ' ' || state FROM outbox WHERE state <> 'sent'"
        _none("unsent", {word for (word,) in database.execute(sql)})
        _twice(
            "made",
            (
                key
                for key, deed in self.host.made
                if isinstance(deed, CreateComment | ReplyToReviewComment)
            ),
        )
        rows = [row for kind in (COMMENT, LINE) for row in self.host.rows(kind)]
        ours = [row for row in rows if row["user"]["login"] == self.host.login]
        _twice("shown", (token for row in ours for token in find_tokens(row["body"])))
        heads = (pull["head"]["ref"] for pull in self.host.pulls.values())
        _twice("open pull requests", heads)

    def _heard(self, database: sqlite3.Connection) -> None:
        """Words on a pull request that was never closed are answered; on its issue, led on."""
        pulls = {
            pull: issue
            for pull, issue in self._pulls(database).items()
            if not {pull, issue} & self.host.ended
        }
        answered = _column(database, "event_key FROM feedback_events WHERE processed_at <> ''")
        told = _column(database, "kind || comment_id FROM feedback_events")
        led = _column(database, "token FROM outbox")
        noticed = _column(database, "event_key FROM inbox")
        for kind, number, key in self.host.shown_now():
            if self.threads and key not in noticed:
                # What is not promised to be noticed there need not be answered.
                continue
            which = key.split(":")[1]
            if not self._is_allowed(kind, int(which)):
                continue
            if number in pulls and key not in answered:
                raise Wrong(f"{key} on pull request {number} has had no answer")
            known = f"{kind}{which}" in told or build_token("redirect", int(which)) in led
            if number in pulls.values() and not known:
                raise Wrong(f"{key} on issue {number} was neither told nor led on")

    def _is_allowed(self, kind: str, which: int) -> bool:
        rows = {row["id"]: row for one in (COMMENT, LINE, REVIEW) for row in self.host.rows(one)}
        return rows[which]["user"]["login"] in ALLOWED


def _once(database: sqlite3.Connection) -> None:
    """No effect happens twice."""
    rows = database.execute("SELECT what || ' ' || key FROM ledger").fetchall()
    _twice("effects", (word for (word,) in rows))


def _column(database: sqlite3.Connection, sql: str) -> set[str]:
    return {word for (word,) in database.execute(f"SELECT {sql}")}


def _keys(versions: Iterable[Version]) -> set[str]:
    return {key for _, _, key in versions}


def _moment(key: str) -> datetime:
    return datetime.fromisoformat(":".join(key.split(":")[2:5]).replace("Z", "+00:00"))


def _none(what: str, found: set[str]) -> None:
    if found:
        raise Wrong(f"{what}: {sorted(found)}")


def _twice(what: str, found: Iterable[str]) -> None:
    _none(f"{what} more than once", {key for key, count in Counter(found).items() if count > 1})
