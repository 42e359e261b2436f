"""The moves on a real sandbox: the people act, and this test plays Hostler's account by hand."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from demo_scenes import ALMANAC, BREST, FIRST, LEAP, PLOT, SECOND, STRANGER

from hostler.cli.demo.environment import BOT, REVIEWER, build_seed
from hostler.cli.demo.observe import GitHubObserver, GitHubSnapshot
from hostler.cli.demo.people import ActionRefused, ApprovePull, DemoUsers, MergePull, due_actions
from hostler.sandbox.server import Running, running

FIXED = "def is_leap(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n"


class Town:
    """A sandbox with the demo's repositories, its people, and the account that Hostler has."""

    def __init__(self, sandbox: Running) -> None:
        self.people = DemoUsers(sandbox)
        self.people.fill(PLOT)
        self.eyes = GitHubObserver(sandbox, tuple(project.name for project in PLOT.projects))
        self.bot = sandbox.client(BOT)

    def close(self) -> None:
        self.bot.close()
        self.people.close()

    def let_people_act(self) -> GitHubSnapshot:
        """Until nobody has anything to do; everybody acts at most a few times."""
        for _ in range(5):
            moves = due_actions(PLOT, self.eyes.look())
            if not moves:
                return self.eyes.look()
            for move in moves:
                self.people.act(move)
        raise AssertionError(f"still due: {moves}")

    def say(self, method: str, where: str, **fields) -> dict:
        answer = self.bot.request(method, f"/repos/{where}", json=fields)
        assert answer.is_success, answer.text
        return answer.json()

    def open_pull(self, repo: str, issue: int, path: str, text: str) -> int:
        """Push a change of one file to a branch, and open a pull request for an issue."""
        branch, main = f"agent/{issue}", self.bot.get(f"/repos/{repo}/git/ref/heads/main").json()
        sha = main["object"]["sha"]
        self.say("POST", f"{repo}/git/refs", ref=f"refs/heads/{branch}", sha=sha)
        self.put(repo, branch, path, text)
        fields = {"title": "Mend it", "head": branch, "base": "main", "body": f"Fixes #{issue}"}
        return int(self.say("POST", f"{repo}/pulls", **fields)["number"])

    def put(self, repo: str, branch: str, path: str, text: str) -> None:
        known = self.bot.get(f"/repos/{repo}/contents/{path}", params={"ref": branch})
        old = {"sha": known.json()["sha"]} if known.is_success else {}
        content = base64.b64encode(text.encode()).decode()
        where = f"{repo}/contents/{path}"
        self.say("PUT", where, message="Mend", content=content, branch=branch, **old)


@pytest.fixture
def town() -> Iterator[Town]:
    with running(build_seed(PLOT), git=True) as sandbox:
        town = Town(sandbox)
        yield town
        town.close()


def test_issues_are_filed_with_their_labels_by_their_authors(town):
    seen = town.let_people_act()
    assert [(one.title, one.author, one.labels) for one in seen.issues] == [
        (one.title, one.author, (one.label,)) for one in PLOT.filings
    ]
    assert seen.titled(STRANGER).labels, "who is not allowed may label all the same"


def test_a_review_is_said_answered_edited_answered_and_merged(town):
    town.let_people_act()
    number = town.open_pull(ALMANAC, 1, "almanac/years.py", FIXED)
    (pull,) = town.let_people_act().pulls
    (said,) = pull.remarks
    assert (said.author, said.body, said.line, said.versions) == (REVIEWER, FIRST, 2, 1)

    where = f"{ALMANAC}/pulls/{number}/comments/{said.id}/replies"
    town.say("POST", where, body="A comment says it now.")
    (pull,) = town.let_people_act().pulls
    assert (pull.remarks[0].body, pull.remarks[0].versions) == (SECOND, 2)
    assert pull.open

    town.put(ALMANAC, "agent/1", "almanac/years.py", FIXED + "\n\n# Why.\n")
    town.say("POST", where, body="And now in the docstring.")
    seen = town.let_people_act()
    (pull,) = seen.pulls
    ((said, replies),) = pull.threads()
    assert (pull.merged_by, pull.approved_by, pull.commits) == (REVIEWER, (REVIEWER,), 2)
    assert len(replies) == said.versions == 2
    assert not seen.titled(LEAP).open


def test_a_question_is_answered(town):
    issue = town.let_people_act().titled(BREST)
    town.say("POST", f"{issue.repo}/issues/{issue.number}/comments", body="Which one?")
    talk = town.let_people_act().titled(BREST).talk
    assert [said.author for said in talk] == [BOT, "ada"]
    assert talk[1].body == PLOT.answers[0].text


def test_what_was_not_approved_is_not_merged(town):
    town.let_people_act()
    number = town.open_pull(ALMANAC, 2, "almanac/months.py", "DAYS = 31\n")
    head = town.eyes.look().pulls[0].head
    town.people.act(ApprovePull(ALMANAC, number, head))
    town.put(ALMANAC, "agent/2", "almanac/months.py", "DAYS = 30\n")
    with pytest.raises(ActionRefused, match="409"):
        town.people.act(MergePull(ALMANAC, number, head))
    assert town.eyes.look().pulls[0].open
