"""What people do in a stream: any of it may be shown late, and at moments that are askew."""

from __future__ import annotations

from streams_host import COMMENT, LINE, REVIEW, Host

from hostler.forge.port import ItemKind

ALLOWED = ("ann", "bob")
EVERYBODY = (*ALLOWED, "ann", "bob", "mallory")
LABELS = ("agent:bugfix", "agent:small-job")
IGNORE = "agent:ignore"
# A reading reaches back for 305 s; moments are askew by up to 2 s either way.
LATE = (0, 0, 0, 1, 20, 100, 290)
WAITS = (0, 1, 1, 4, 30, 60, 280, 4000)
MOST_ISSUES = 4


class People:
    """Each deed takes two numbers, which say what and how."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._words = 0

    def file(self, which: int, how: int) -> None:
        """A new issue, mostly for an agent."""
        if len(self.host.issues) - len(self.host.pulls) < MOST_ISSUES:
            labels = (LABELS[how % 2],) if how % 5 else ()
            body = self._say()
            self.host.file_issue(f"Work {which}", by=_who(how), body=body, labels=labels)

    def say(self, which: int, how: int) -> None:
        made = self.host.say(self._thread(which), self._say(), by=_who(how))
        self._perhaps_late(COMMENT, made, how)

    def line(self, which: int, how: int) -> None:
        if self.host.pulls:
            made = self.host.review_line(self._pull(which), self._say(), by=_who(how))
            self._perhaps_late(LINE, made, how)

    def review(self, which: int, how: int) -> None:
        if self.host.pulls:
            state = ("COMMENTED", "APPROVED", "CHANGES_REQUESTED")[how % 3]
            made = self.host.review(self._pull(which), state, self._say(), by=_who(how))
            self._perhaps_late(REVIEW, made, how)

    def burst(self, which: int, how: int) -> None:
        """Many words in one second, on one thread or on all."""
        for place in range(how % 9):
            self.say(which + (place if how % 2 else 0), how // 9 + place)

    def edit(self, which: int, how: int) -> None:
        self._edit(COMMENT, which, how)

    def edit_line(self, which: int, how: int) -> None:
        self._edit(LINE, which, how)

    def edit_review(self, which: int, how: int) -> None:
        self._edit(REVIEW, which, how)

    def edit_old(self, which: int, how: int) -> None:
        """The lowest id of all changes last."""
        self._edit((COMMENT, LINE)[which % 2], 0, how)

    def flap(self, which: int, how: int) -> None:
        """Changed and changed back within the same second."""
        ids = self._of_people(COMMENT)
        if ids:
            chosen = ids[which % len(ids)]
            before = self.host.comments[chosen]["body"]
            self.host.reword(COMMENT, chosen, self._say())
            if how % 2:
                self.host.reword(COMMENT, chosen, before)

    def delete(self, which: int, how: int) -> None:
        kind = (COMMENT, LINE)[how % 2]
        ids = self._of_people(kind)
        if ids:
            self.host.remove(kind, ids[which % len(ids)])

    def rewrite(self, which: int, how: int) -> None:
        self.host.change(self._thread(which), body=self._say())

    def label(self, which: int, how: int) -> None:
        self.host.put_labels(self._thread(which), (LABELS[how % 2],), by=_who(how))

    def ignore(self, which: int, how: int) -> None:
        number = self._thread(which)
        self.host.ended.add(number)
        self.host.put_labels(number, (IGNORE,), by=_who(how))

    def unlabel(self, which: int, how: int) -> None:
        self.host.change(self._thread(which), labels=[])

    def close(self, which: int, how: int) -> None:
        """Mostly pull requests: a closed issue ends its whole stream."""
        if self.host.pulls:
            number = self._pull(which) if how % 3 else self._thread(which)
            self.host.change(number, state="closed")

    def reopen(self, which: int, how: int) -> None:
        for number in self._closed(which):
            self.host.change(number, state="open")

    def merge(self, which: int, how: int) -> None:
        if self.host.pulls:
            number = self._pull(which)
            if self.host.pulls[number]["state"] == "open":
                self.host.merge(number)

    def wait(self, which: int, how: int) -> None:
        self.host.pass_time(WAITS[which % len(WAITS)])
        self.host.askew, self.host.date_askew = how % 5 - 2, how // 5 % 5 - 2

    # -----------------------------------------------------------------------------------------

    def _edit(self, kind: ItemKind, which: int, how: int) -> None:
        ids = self._of_people(kind)
        if ids:
            chosen = ids[which % len(ids)]
            # Whether an edit moves its thread is the host's affair.
            if kind is COMMENT and how % 2:
                url = self.host.comments[chosen]["issue_url"]
                self.host.touch(int(url.rpartition("/")[2]))
            self.host.reword(kind, chosen, self._say(), LATE[how % len(LATE)])

    def _perhaps_late(self, kind: ItemKind, made: int, how: int) -> None:
        late = LATE[how // 7 % len(LATE)]
        if late:
            self.host.delay(kind, made, late)

    def _of_people(self, kind: ItemKind) -> list[int]:
        rows = self.host.rows(kind)
        return sorted(row["id"] for row in rows if row["user"]["login"] != self.host.login)

    def _closed(self, which: int) -> list[int]:
        pulls = self.host.pulls
        closed = [n for n in sorted(self.host.issues) if self.host.issues[n]["state"] == "closed"]
        open_again = [n for n in closed if n not in pulls or not pulls[n]["merged_at"]]
        return [open_again[which % len(open_again)]] if open_again else []

    def _thread(self, which: int) -> int:
        numbers = sorted(self.host.issues)
        return numbers[which % len(numbers)]

    def _pull(self, which: int) -> int:
        numbers = sorted(self.host.pulls)
        return numbers[which % len(numbers)]

    def _say(self) -> str:
        """No two words are the same, so that each version is known by its key."""
        self._words += 1
        return f"words {self._words}"


def _who(how: int) -> str:
    return EVERYBODY[how % len(EVERYBODY)]
