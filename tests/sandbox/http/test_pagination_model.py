"""To be shown: whatever is written, and however it is read, pages equal those of a plain list.

A state machine makes, edits, deletes and hides, lets time pass, and reads every feed with any
combination of since, sort, direction, state, per_page and page. Beside the sandbox it keeps a
plain log of writes; each answer must be the slice that the log gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, rule
from local_sandbox import START, Local

from example_counts import examples
from hostler.sandbox.state.clock import iso

COMMENTS = "/repos/alice/demo/issues/comments"
ISSUES = "/repos/alice/demo/issues"
SORTS = st.sampled_from([None, "created", "updated", "nonsense"])
DIRECTIONS = st.sampled_from([None, "asc", "desc", "nonsense"])
SIZES = st.sampled_from([1, 2, 3, 100])
# A moment at which something was written (by its place among them), or one beside it.
SINCE = st.none() | st.tuples(st.integers(0, 20), st.sampled_from([0, 0, 0, -1, 1]))
STATES = st.sampled_from([None, "open", "closed", "all"])


@dataclass(frozen=True)
class Row:
    """An issue or a comment, as the model knows it."""

    id: int
    number: int
    created: int
    updated: int
    text: str
    state: str = "open"
    comments: int = 0


class Log:
    """Every write with the moment from which it shows."""

    def __init__(self) -> None:
        self.writes: list[tuple[float, tuple[str, int], Row | None]] = []
        self.truth: dict[tuple[str, int], Row] = {}

    def put(self, kind: str, row: Row, shows: float) -> None:
        self.writes.append((shows, (kind, row.id), row))
        self.truth[(kind, row.id)] = row

    def remove(self, kind: str, row: Row, shows: float) -> None:
        self.writes.append((shows, (kind, row.id), None))
        del self.truth[(kind, row.id)]

    def visible(self, kind: str, now: float) -> list[Row]:
        found: dict[tuple[str, int], Row | None] = {}
        for shows, key, row in self.writes:
            if shows <= now:
                found[key] = row
        return [row for key, row in found.items() if key[0] == kind and row is not None]


class Feeds(RuleBasedStateMachine):
    """The sandbox and the log, side by side."""

    issues = Bundle("issues")
    comments = Bundle("comments")

    @initialize(random_ids=st.booleans())
    def begin(self, random_ids):
        self.local = Local()
        if random_ids:
            self.local.world.settings.change({"id_strategy": "random"})
        self.log = Log()
        self.hidden = 0.0
        self.kept: dict[str, tuple[str, bytes]] = {}

    def teardown(self):
        self.local.close()

    @property
    def now(self) -> int:
        return self.local.world.now()

    @property
    def shows(self) -> float:
        return self.now + self.hidden

    @rule(seconds=st.sampled_from([0, 0, 4, 30]))
    def writes_hide_for(self, seconds):
        self.hidden = seconds
        self.local.world.settings.change({"visibility_delay": seconds})

    @rule(seconds=st.sampled_from([1, 1, 2, 5, 31]))
    def time_passes(self, seconds):
        self.local.pass_time(seconds)

    @rule(target=issues, text=st.text(max_size=3))
    def open_issue(self, text):
        made = self.local.post(ISSUES, {"title": "t", "body": text}).json()
        row = Row(made["id"], made["number"], self.now, self.now, text)
        self.log.put("issue", row, self.shows)
        return row.id

    @rule(issue=issues, state=st.sampled_from(["open", "closed"]))
    def set_state(self, issue, state):
        row = self.log.truth[("issue", issue)]
        self.local.patch(f"{ISSUES}/{row.number}", {"state": state})
        if row.state != state:
            self.log.put("issue", replace(row, state=state, updated=self.now), self.shows)

    @rule(target=comments, issue=issues)
    def comment(self, issue):
        thread = self.log.truth[("issue", issue)]
        made = self.local.comment(thread.number, "said").json()
        row = Row(made["id"], thread.number, self.now, self.now, "said")
        self.log.put("comment", row, self.shows)
        moved = replace(thread, comments=thread.comments + 1, updated=self.now)
        self.log.put("issue", moved, self.shows)
        return row.id

    @rule(comment=comments, text=st.sampled_from(["a", "b"]))
    def edit(self, comment, text):
        row = self.log.truth[("comment", comment)]
        assert self.local.patch(f"{COMMENTS}/{comment}", {"body": text}).status == 200
        self.log.put("comment", replace(row, text=text, updated=self.now), self.shows)
        thread = self._thread(row)
        self.log.put("issue", replace(thread, updated=self.now), self.shows)

    @rule(comment=consumes(comments))
    def delete(self, comment):
        row = self.log.truth[("comment", comment)]
        assert self.local.delete(f"{COMMENTS}/{comment}").status == 204
        self.log.remove("comment", row, self.shows)
        thread = self._thread(row)
        self.log.put("issue", replace(thread, comments=thread.comments - 1), self.shows)

    @rule(sort=SORTS, direction=DIRECTIONS, since=SINCE, size=SIZES)
    def read_comments(self, sort, direction, since, size):
        since = self._moment(since)
        rows = _since(self.log.visible("comment", self.now), since)
        order = sort if sort in ("created", "updated") else "id"
        rows = _ordered(rows, order, down=order != "id" and direction == "desc")
        query = {"sort": sort, "direction": direction, "since": since}
        self._read(COMMENTS, query, rows, size)

    @rule(issue=issues, direction=DIRECTIONS, since=SINCE, size=SIZES)
    def read_thread(self, issue, direction, since, size):
        thread = self.log.truth[("issue", issue)]
        path = f"{ISSUES}/{thread.number}/comments"
        if all(row.id != issue for row in self.log.visible("issue", self.now)):
            assert self.local.get(path).status == 404
            return
        rows = [row for row in self.log.visible("comment", self.now) if row.number == thread.number]
        since = self._moment(since)
        rows = _ordered(_since(rows, since), "id", down=False)
        self._read(path, {"direction": direction, "since": since}, rows, size)

    @rule(
        state=STATES,
        sort=st.sampled_from([None, "created", "updated", "comments"]),
        direction=DIRECTIONS,
        since=SINCE,
        size=SIZES,
    )
    def read_issues(self, state, sort, direction, since, size):
        wanted, since = state or "open", self._moment(since)
        rows = [
            row
            for row in _since(self.log.visible("issue", self.now), since)
            if wanted in ("all", row.state)
        ]
        rows = _ordered(rows, sort or "created", down=direction != "asc")
        query = {"state": state, "sort": sort, "direction": direction, "since": since}
        self._read(ISSUES, query, rows, size)

    def _thread(self, comment: Row) -> Row:
        rows = self.log.truth.items()
        return next(r for key, r in rows if key[0] == "issue" and r.number == comment.number)

    def _moment(self, since: tuple[int, int] | None) -> int | None:
        """The second that a drawn `since` stands for."""
        if since is None:
            return None
        known = sorted({row.updated for _, _, row in self.log.writes if row}) or [START]
        return known[since[0] % len(known)] + since[1]

    def _read(self, path, query, rows, size):
        """Every page, and one behind the last."""
        given = {name: value for name, value in query.items() if value is not None}
        if "since" in given:
            given["since"] = iso(given["since"])
        pairs = [f"{name}={value}" for name, value in given.items()]
        for page in range(1, len(rows) // size + 3):
            url = f"{path}?{'&'.join([*pairs, f'per_page={size}', f'page={page}'])}"
            answer = self.local.get(url)
            wanted = rows[(page - 1) * size : page * size]
            shown = [(item["id"], item["body"], item["updated_at"]) for item in answer.json()]
            assert shown == [(row.id, row.text, iso(row.updated)) for row in wanted]
            assert ('rel="next"' in answer.headers.get("Link", "")) == (len(rows) > page * size)
            self._revalidate(url, answer)

    def _revalidate(self, url, answer):
        """A known page is 304 exactly while its content is the same."""
        tag, body = self.kept.get(url, ("", b""))
        if tag:
            again = self.local.get(url, if_none_match=tag)
            assert (again.status == 304) == (body == answer.body)
        self.kept[url] = (answer.headers["ETag"], answer.body)


def _since(rows: list[Row], since: int | None) -> list[Row]:
    return [row for row in rows if since is None or row.updated >= since]


def _ordered(rows: list[Row], order: str, *, down: bool) -> list[Row]:
    moment = (lambda row: 0) if order == "id" else (lambda row: getattr(row, order))
    return sorted(rows, key=lambda row: (moment(row), row.id), reverse=down)


TestFeeds = Feeds.TestCase
TestFeeds.settings = settings(max_examples=examples(25, 80), stateful_step_count=50, deadline=None)
