"""People: each story is carried on by one step as soon as what it waits for can be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from soak_plan import Story
from soak_town import OPERATOR, OWNER, SPEAKER, STRANGER, US, Town

from hostler.sandbox.pulls.entities import PullRequest, ReviewComment
from hostler.sandbox.state.entities import Comment, Issue
from hostler.sandbox.state.world import World
from hostler.store.tasks import Task, TaskState

# Kills can make any task ask; whoever does so more often than this is in a loop.
MOST_ANSWERS = 12

NOT_FOUND = 404


class NotShown(Exception):
    """GitHub does not show it to people yet."""


@dataclass
class Word:
    """Something that an allowed person said: its versions, and where an answer is due."""

    comment: int
    versions: list[str]
    thread: int
    kind: str
    # An answer to a question need not be answered itself: it must be heard.
    asks: bool = True


@dataclass
class Command:
    """A command in a comment."""

    comment: int
    thread: int
    by: str
    verb: str


@dataclass
class Tale:
    """A story on its way."""

    story: Story
    number: int
    at: int = 0
    words: list[Word] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    answers: int = 0
    rescues: int = 0

    @property
    def step(self) -> str:
        """What comes next; nothing when it is told."""
        return self.story.steps[self.at] if self.at < len(self.story.steps) else ""

    @property
    def told(self) -> bool:
        return not self.step

    @property
    def key(self) -> tuple[str, int]:
        return f"{OWNER}/{self.story.repo}", self.number


class People:
    """Who does what the stories say. They use an address that no fault strikes."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self._clients = {login: town.hub.client(login) for login in (OPERATOR, SPEAKER, STRANGER)}
        self._said = 0

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def file(self, story: Story) -> Tale:
        """An issue begins its story."""
        body = f"Please do {story.name}."
        words = {"title": story.title, "body": body, "labels": [story.label]}
        made = self._do(story.author, story.repo, "POST", "/issues", **words)
        return Tale(story, int(made["number"]))

    def carry_on(self, tale: Tale, task: Task | None, hung: set[str]) -> bool:
        """Do or see the next step; whether the story went on."""
        if task is None:
            return False
        try:
            done = self._done(tale, task, hung)
        except NotShown:
            return False
        if not done:
            self._help(tale, task)
            return False
        if tale.step in ("stopped", "free"):
            self._town.note(word=tale.step, task=task.id)
        tale.at += 1
        return True

    # -- steps --------------------------------------------------------------------------------

    def _done(self, tale: Tale, task: Task, hung: set[str]) -> bool:
        verb, _, rest = tale.step.partition(" ")
        if verb == "command":
            return self.command(tale, task, rest)
        if verb == "stranger":
            return self._stranger(tale, task, rest)
        if verb == "hung":
            return task.id in hung
        waits: dict[str, Callable[[], bool]] = {
            "pull": lambda: self._sees_pull(tale, task),
            "question": lambda: task.state is TaskState.NEEDS_INPUT,
            "blocked": lambda: task.state is TaskState.BLOCKED,
            "stopped": lambda: task.state is TaskState.STOPPED,
            "done": lambda: task.state is TaskState.DONE,
            "answered": lambda: self._answered(tale, task),
            "refused": lambda: any(self._replies(tale, STRANGER, task.pr_number or 0)),
            "obeyed": lambda: self._obeyed(tale),
        }
        if verb in waits:
            return waits[verb]()
        acts: dict[str, Callable[[Tale, Task], bool]] = {
            "say": self._say,
            "remark": self._remark,
            "edit": self._edit,
            "answer": self._answer,
            "free": self._free,
            "merge": self._merge,
            "close": self._close,
        }
        return acts[verb](tale, task)

    def _say(self, tale: Tale, task: Task) -> bool:
        return self._post(tale, task.pr_number or 0, f"issues/{task.pr_number}/comments")

    def _remark(self, tale: Tale, task: Task) -> bool:
        pull = task.pr_number or 0
        head = self._do(SPEAKER, tale.story.repo, "GET", f"/pulls/{pull}")["head"]["sha"]
        where = {"path": f"notes/{tale.number}.md", "line": 1, "side": "RIGHT", "commit_id": head}
        return self._post(tale, pull, f"pulls/{pull}/comments", **where)

    def _post(self, tale: Tale, thread: int, address: str, **where: Any) -> bool:
        text = self._new_word()
        made = self._do(SPEAKER, tale.story.repo, "POST", f"/{address}", body=text, **where)
        kind = "remark" if where else "comment"
        tale.words.append(Word(int(made["id"]), [text], thread, kind))
        return True

    def _edit(self, tale: Tale, _task: Task) -> bool:
        word = tale.words[-1]
        text = f"{word.versions[0]}{'x' * len(word.versions)}"
        what = "pulls" if word.kind == "remark" else "issues"
        path = f"/{what}/comments/{word.comment}"
        self._do(SPEAKER, tale.story.repo, "PATCH", path, body=text)
        word.versions.append(text)
        return True

    def _answer(self, tale: Tale, task: Task) -> bool:
        """Where the question stands."""
        thread = self._question(tale, task)
        if not thread:
            return False
        assert tale.answers < MOST_ANSWERS, f"{tale.key} asks for ever: {task.question}"
        path, text = f"/issues/{thread}/comments", self._new_word()
        made = self._do(SPEAKER, tale.story.repo, "POST", path, body=text)
        tale.words.append(Word(int(made["id"]), [text], thread, "comment", asks=False))
        tale.answers += 1
        return True

    def _free(self, tale: Tale, _task: Task) -> bool:
        (self._town.place / "freed" / f"{tale.story.repo}-{tale.number}").touch()
        return True

    def _merge(self, tale: Tale, task: Task) -> bool:
        """Whether it can be merged is computed when somebody asks, as on the real one."""
        pull = f"/pulls/{task.pr_number}"
        self._do(SPEAKER, tale.story.repo, "GET", pull)
        answer = self._ask(SPEAKER, tale.story.repo, "PUT", f"{pull}/merge")
        return answer.is_success

    def _close(self, tale: Tale, task: Task) -> bool:
        self._do(SPEAKER, tale.story.repo, "PATCH", f"/pulls/{task.pr_number}", state="closed")
        return True

    def command(self, tale: Tale, task: Task, verb: str, by: str = OPERATOR) -> bool:
        """Say it where the work is."""
        thread = task.pr_number or tale.number
        text = f"/hostler {verb}"
        path = f"/issues/{thread}/comments"
        made = self._do(by, tale.story.repo, "POST", path, body=text)
        tale.commands.append(Command(int(made["id"]), thread, by, verb))
        return True

    def _stranger(self, tale: Tale, task: Task, what: str) -> bool:
        if what == "commands":
            return self.command(tale, task, "stop", STRANGER)
        path = f"/issues/{task.pr_number}/comments"
        self._do(STRANGER, tale.story.repo, "POST", path, body="A stranger's word.")
        return True

    def _help(self, tale: Tale, task: Task) -> None:
        """What a person would do where a story stands still."""
        # Kills may bring any task to a question that its story did not mean.
        if task.state is TaskState.NEEDS_INPUT and tale.step != "answer":
            tale.rescues += self._answer(tale, task)
        # A retry is refused while the stopped agent's run is not over.
        stuck = tale.step == "pull" and task.state in (TaskState.STOPPED, TaskState.BLOCKED)
        if stuck and tale.commands and self._obeyed(tale):
            assert tale.rescues < MOST_ANSWERS, f"{tale.key} is not to be moved: {task.reason}"
            tale.rescues += self.command(tale, task, "retry")

    # -- what people see ----------------------------------------------------------------------

    def _sees_pull(self, tale: Tale, task: Task) -> bool:
        """Whether it waits for people, and GitHub shows it to them."""
        name = self._town.ids[tale.story.repo], task.pr_number
        waits = task.state is TaskState.AWAITING_FEEDBACK and bool(task.pr_number)
        return (
            waits and self._town.look(lambda world: world.seen.find(PullRequest, *name)) is not None
        )

    def _question(self, tale: Tale, task: Task) -> int:
        """The thread whose last word is the question; 0 while there is none."""
        asked = task.question.partition("\n")[0]
        for thread in (tale.number, task.pr_number) if asked else ():
            said = [one for one in self._thread(tale.story.repo, thread or 0) if _is_plain(one)]
            if said and said[-1].user == US and asked in said[-1].body:
                return thread or 0
        return 0

    def _answered(self, tale: Tale, task: Task) -> bool:
        if task.state is not TaskState.AWAITING_FEEDBACK:
            return False
        ours = "\n".join(self._ours(tale, task.pr_number or 0))
        return all(f"Done: {word.versions[-1]}\n" in ours for word in tale.words if word.asks)

    def _obeyed(self, tale: Tale) -> bool:
        """A command has its reply on GitHub, and its effect in the rows."""
        said = [one for one in tale.commands if one.by == OPERATOR]
        thread = said[-1].thread
        mine = [one for one in said if one.thread == thread]
        return len(list(self._replies(tale, OPERATOR, thread))) >= len(mine)

    def _replies(self, tale: Tale, to: str, thread: int) -> Iterator[str]:
        for one in self._thread(tale.story.repo, thread):
            if one.user == US and one.body.startswith(f"@{to}"):
                yield one.body

    def _ours(self, tale: Tale, pull: int) -> list[str]:
        def read(world: World) -> list[str]:
            repo = self._town.ids[tale.story.repo]
            found = world.truth.find(PullRequest, repo, pull)
            assert found is not None
            said = world.truth.group(ReviewComment, "pull", found.id).select()
            return [f"{one.body}\n" for one in said if one.user == US]

        remarks = self._town.look(read)
        said = self._thread(tale.story.repo, pull)
        return [*remarks, *(f"{one.body}\n" for one in said if one.user == US)]

    def _thread(self, repo: str, number: int) -> list[Comment]:
        def read(world: World) -> list[Comment]:
            issue = world.truth.find(Issue, self._town.ids[repo], number)
            if issue is None:
                return []
            return list(world.truth.group(Comment, "issue", issue.id).select())

        return self._town.look(read)

    # -- asking GitHub ------------------------------------------------------------------------

    def _new_word(self) -> str:
        self._said += 1
        return f"word-{self._said}."

    def _do(self, login: str, repo: str, method: str, address: str, **body: Any) -> Any:
        answer = self._ask(login, repo, method, address, **body)
        if answer.status_code == NOT_FOUND:
            raise NotShown
        assert answer.is_success, f"{method} {address}: {answer.status_code} {answer.text}"
        return answer.json()

    def _ask(self, login: str, repo: str, method: str, address: str, **body: Any) -> httpx.Response:
        where = f"/repositories/{self._town.ids[repo]}{address}"
        return self._clients[login].request(method, where, json=body or None)


def _is_plain(said: Comment) -> bool:
    """Whether it is said by a person or to one: no status, no command, no stranger."""
    return "**Hostler**" not in said.body and said.user != STRANGER and "/hostler" not in said.body
