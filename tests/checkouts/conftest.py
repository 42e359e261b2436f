"""A remote, a mirror and a checkout per test, and an agent that acts with its own git."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostler.checkouts.mirror import Mirror, open_mirror, update
from hostler.checkouts.names import Sha, sha
from hostler.checkouts.place import Checkout, Identity, Place
from hostler.checkouts.preparing import Plan, Prepared, prepare
from hostler.checkouts.remote import Remote
from hostler.model import RepoName

ANN = Identity("Ann Operator", "ann@example.org")
BRANCH = "agent/bugfix/7-crash"


@dataclass(frozen=True)
class Agent:
    """Git as an agent or a person runs it: with the repository's own settings and hooks."""

    home: Path

    def __call__(self, *args: str, cwd: Path, check: bool = True, **env: str) -> str:
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *args],
            cwd=cwd,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "GIT_AUTHOR_NAME": "Bot",
                "GIT_AUTHOR_EMAIL": "bot@example.org",
                "GIT_COMMITTER_NAME": "Bot",
                "GIT_COMMITTER_EMAIL": "bot@example.org",
                **env,
            },
            capture_output=True,
            text=True,
        )
        if check and done.returncode:
            raise AssertionError(f"git {args}: {done.stderr}")
        return done.stdout.strip()

    def commit(self, cwd: Path, file: str, text: str) -> Sha:
        """Write a file and commit it."""
        (cwd / file).parent.mkdir(parents=True, exist_ok=True)
        (cwd / file).write_text(text)
        self("add", "-A", cwd=cwd)
        self("commit", "-qm", f"Change {file}", cwd=cwd)
        return self.head(cwd)

    def head(self, cwd: Path, ref: str = "HEAD") -> Sha:
        return sha(self("rev-parse", ref, cwd=cwd))


@dataclass(frozen=True)
class Stable:
    """Everything around one repository."""

    root: Path
    origin: Path
    agent: Agent
    mirror: Mirror
    remote: Remote

    @property
    def place(self) -> Place:
        return Place(self.root / "checkouts", "stable", "t7")

    def prepare(self, branch: str = BRANCH, base: str = "main") -> Prepared:
        return prepare(self.place, self.mirror, self.remote, Plan(branch, base, ANN))

    def on_remote(self, branch: str = BRANCH) -> str:
        """The commit of a branch on the remote, or an empty text."""
        return self.agent(
            "rev-parse", "-q", "--verify", f"refs/heads/{branch}", cwd=self.origin, check=False
        )

    def person(self, name: str = "person") -> Path:
        """Somebody else's clone."""
        folder = self.root / name
        if not folder.exists():
            self.agent("clone", "-q", self.remote.url, str(folder), cwd=self.root)
        return folder


def plant(root: Path, agent: Agent) -> Path:
    """A bare repository with one commit on `main`."""
    origin = root / "origin.git"
    work = root / "planting"
    agent("init", "-q", "--bare", "-b", "main", str(origin), cwd=root)
    agent("init", "-q", "-b", "main", str(work), cwd=root)
    (work / ".gitignore").write_text("*.log\n")
    (work / "src").mkdir()
    (work / "src" / "app.py").write_text("print('hello')\n")
    agent.commit(work, "README.md", "# stable\n")
    agent("push", "-q", str(origin), "main", cwd=work)
    return origin


@pytest.fixture(scope="session")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An origin and its mirror, to be copied for each test."""
    root = tmp_path_factory.mktemp("seed")
    home = root / "agent-home"
    home.mkdir()
    origin = plant(root, Agent(home))
    mirror = open_mirror(root / "mirrors", RepoName("octo", "stable"))
    update(mirror, Remote(f"file://{origin}"))
    return root


@pytest.fixture
def stable(tmp_path: Path, seed: Path) -> Stable:
    for name in ("origin.git", "mirrors", "agent-home"):
        shutil.copytree(seed / name, tmp_path / name)
    mirror = open_mirror(tmp_path / "mirrors", RepoName("octo", "stable"))
    origin = tmp_path / "origin.git"
    remote = Remote(f"file://{origin}")
    return Stable(tmp_path, origin, Agent(tmp_path / "agent-home"), mirror, remote)


@pytest.fixture
def prepared(stable: Stable) -> Prepared:
    return stable.prepare()


@pytest.fixture
def checkout(prepared: Prepared) -> Checkout:
    return prepared.checkout
