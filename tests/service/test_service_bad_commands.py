"""`hostler service` and `hostler run` with bad input: one clear message, and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mounts import read_only, small_disk
from service_town import ALICE, US, Person, github

from hostler.config.loader import load_settings
from hostler.errors import HostlerError
from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running
from hostler.service.tasks.foreground import parse_issue_reference

SETTINGS = """
[github]
api_url = "{url}"
web_url = "{url}"
token_file = "{token}"
[repo.stable]
owner = "alice"
name = "{name}"
allowed_users = ["alice"]
agent = "{agent}"
[agent.helper]
kind = "command"
command = ["sh", "-c", "echo work > work.md; hostler done --summary Worked"]
"""


@dataclass
class Desk:
    """A command line, settings that can be wrong, and a GitHub."""

    hostler: Callable[..., Any]
    hub: Running
    home: Path

    @property
    def token(self) -> Path:
        return self.home.parent / "token"

    def settings(self, folder: Path | None = None, **wrong: str) -> None:
        right = {"url": self.hub.url, "token": str(self.token), "name": "stable"}
        text = SETTINGS.format(**{**right, "agent": "helper", **wrong})
        ((folder or self.home) / "hostler.toml").write_text(text)

    def refused(self, *argv: object, env: dict[str, str] | None = None) -> str:
        """What a command says that can do nothing: one message."""
        done = self.hostler(*argv, env=env)
        assert done.code in (1, 2), done
        said = f"{done.out}\n{done.err}"
        assert said.count("error:") == 1
        assert "Traceback" not in said and "defect" not in said
        return said


@pytest.fixture
def desk(hostler: Callable[..., Any], home: Path) -> Iterator[Desk]:
    with github() as hub:
        home.mkdir()
        made = Desk(hostler, hub, home)
        made.token.write_text(token_for(US))
        made.token.chmod(0o600)
        made.settings()
        yield made


def test_references_that_name_no_issue(desk: Desk) -> None:
    settings = load_settings(desk.home, None).settings
    for text in ("alice/stable", "alice/stable#-1", "alice/stable#1e3", "#5", "a/b/c#1", ""):
        with pytest.raises(HostlerError, match="names no issue"):
            parse_issue_reference(settings, text)
    for text in ("foo", "alice/stable#0"):
        assert "Write it as owner/repo#12" in desk.refused("run", text)


def test_issues_that_cannot_be_worked_on(desk: Desk) -> None:
    alice = Person(desk.hub, ALICE)
    closed = alice.file("Done already")
    alice("PATCH", f"/issues/{closed}", state="closed")
    head = alice("GET", "/git/ref/heads/main")["object"]["sha"]
    alice("POST", "/git/refs", ref="refs/heads/work", sha=head)
    alice("PUT", "/contents/b.md", message="Work", content="Qm9i", branch="work")
    pull = alice("POST", "/pulls", title="Mine", head="work", base="main")["number"]
    gone = alice.file("Never mind")
    desk.hub.control.post("/issues/delete", json={"repo": "alice/stable", "number": gone})
    wrong = {
        f"alice/stable#{closed}": "is closed",
        f"alice/stable#{pull}": "is a pull request",
        "alice/stable#999999": "does not exist, or our account cannot see it",
        f"alice/stable#{gone}": "This issue was deleted",
        "alice/barn#1": "hostler repo add alice/barn",
    }
    for reference, words in wrong.items():
        assert words in desk.refused("run", reference)
    assert "design, bugfix, small_job" in desk.refused(
        "run", f"alice/stable#{closed}", "--flow", "magic"
    )
    assert alice.comments(closed) == alice.comments(pull) == []


def test_a_machine_without_git(desk: Desk) -> None:
    number = Person(desk.hub, ALICE).file("Notes")
    bare = {"PATH": str(desk.home / "nothing-here")}
    for argv in (["service"], ["run", f"alice/stable#{number}"]):
        assert "Install git" in desk.refused(*argv, env=bare)


def test_settings_and_tokens_that_cannot_be_used(desk: Desk) -> None:
    number = Person(desk.hub, ALICE).file("Notes")
    one = f"alice/stable#{number}"
    desk.settings(agent="nobody")
    assert 'expected one of helper, found "nobody"' in desk.refused("service")
    desk.settings(token=str(desk.home))
    assert "cannot be read: Is a directory" in desk.refused("run", one)
    desk.token.write_text("ghp_nobody-knows-this-one")
    desk.settings()
    assert "a valid token" in desk.refused("run", one)
    assert "a valid token" in desk.refused("service", "--dry-run")
    desk.token.write_text(token_for(US))
    desk.settings(name="nowhere")
    assert "Check the name" in desk.refused("service", "--dry-run")
    desk.settings(url="http://127.0.0.1:9")
    assert "Check the network" in desk.refused("run", one)
    # After all these, the same command does its work.
    desk.settings()
    done = desk.hostler("run", one)
    assert (done.code, "in review" in done.out) == (0, True), done


def test_homes_that_cannot_be_written(desk: Desk, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        desk.settings(disk)
        fresh = ("--config", disk / "hostler.toml", "--home", disk / "fresh")
        assert desk.hostler("--home", disk, "db", "upgrade").code == 0
        with read_only(disk):
            assert "Read-only file system" in desk.refused("--home", disk, "service")
            assert "Read-only" in desk.refused(*fresh, "run", "alice/stable#1")
    (tmp_path / "file").touch()
    config = ("--config", desk.home / "hostler.toml")
    assert "Not a directory" in desk.refused(*config, "--home", tmp_path / "file", "service")
