"""What tests of checkouts act with: a remote, a mirror, and an agent that runs its own git."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hostler.checkouts.checkout import CheckoutLocation, CommitIdentity
from hostler.checkouts.mirror import Mirror, Remote
from hostler.checkouts.names import Sha, parse_sha
from hostler.checkouts.preparation import CheckoutPlan, PreparedCheckout, ensure_checkout

ANN = CommitIdentity("Ann Operator", "ann@example.org")
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
        return parse_sha(self("rev-parse", ref, cwd=cwd))


@dataclass(frozen=True)
class RepoFixture:
    """Everything around one repository."""

    root: Path
    origin: Path
    agent: Agent
    mirror: Mirror
    remote: Remote

    @property
    def place(self) -> CheckoutLocation:
        return CheckoutLocation(self.root / "checkouts", "stable", "t7")

    def prepare(self, branch: str = BRANCH, base: str = "main") -> PreparedCheckout:
        return ensure_checkout(
            self.place, self.mirror, self.remote, CheckoutPlan(branch, base, ANN)
        )

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


def add_submodule(repo_fixture: RepoFixture, url: str, into: Path, path: str) -> None:
    repo_fixture.agent("submodule", "--quiet", "add", url, path, cwd=into)
    repo_fixture.agent("commit", "-qm", f"Add {path}", cwd=into)
    repo_fixture.agent("push", "-q", "origin", "HEAD", cwd=into)


def library(repo_fixture: RepoFixture, name: str) -> Path:
    """Another repository with a commit; a person's clone of it."""
    bare, work = repo_fixture.root / f"{name}.git", repo_fixture.root / name
    repo_fixture.agent(
        "clone", "-q", "--bare", str(repo_fixture.origin), str(bare), cwd=repo_fixture.root
    )
    repo_fixture.agent("clone", "-q", f"file://{bare}", str(work), cwd=repo_fixture.root)
    return work
