"""One bare repository: where it lies, how it is configured, how git is asked about it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostler.sandbox.git import names
from hostler.sandbox.git.process import Output, Person, Runner

# What a public host allows: single commits by sha, partial clones, and no writing to refs/pull.
CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tlogAllRefUpdates = false
\thooksPath = /dev/null
[gc]
\tauto = 0
[http]
\treceivepack = true
\tgetanyfile = false
[receive]
\tautogc = false
\tfsckObjects = true
\thideRefs = refs/pull
\tadvertisePushOptions = false
[uploadpack]
\tallowAnySHA1InWant = true
\tallowFilter = true
[diff]
\trenameLimit = 1000
"""


@dataclass(slots=True)
class Repository:
    """A bare repository. Whoever moves refs holds `lock`."""

    path: Path
    runner: Runner
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def git(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (0,),
    ) -> Output:
        """Run a git command on this repository."""
        where = {"GIT_DIR": str(self.path)} | dict(env or {})
        return await self.runner.run(*args, cwd=self.path, stdin=stdin, env=where, accept=accept)

    async def write_blob(self, data: bytes) -> str:
        """Store a file's content; its sha."""
        return (await self.git("hash-object", "-w", "--stdin", stdin=data)).text.strip()

    async def write_commit(
        self, tree: str, parents: tuple[str, ...], message: str, author: Person, committer: Person
    ) -> str:
        """Store a commit without moving any ref; its sha."""
        flags = [part for parent in parents for part in ("-p", parent)]
        env = author.as_author() | committer.as_committer()
        words = message.replace("\0", "").encode()
        made = await self.git("commit-tree", tree, *flags, "-F", "-", stdin=words, env=env)
        return made.text.strip()

    async def first_commit(self, branch: str, title: str, person: Person) -> str:
        """Give an empty repository a README on `branch`; the commit's sha."""
        blob = await self.write_blob(f"# {title}\n".encode())
        tree = await self.git("mktree", stdin=f"100644 blob {blob}\tREADME.md\n".encode())
        commit = await self.write_commit(tree.text.strip(), (), "Initial commit\n", person, person)
        await self.git("update-ref", names.branch_ref(branch), commit, names.ZERO)
        return commit

    async def set_default_branch(self, branch: str) -> None:
        """Point HEAD at `branch`, whether or not it exists yet."""
        await self.git("symbolic-ref", "HEAD", names.branch_ref(branch))


async def create(path: Path, runner: Runner, default_branch: str) -> Repository:
    """Make an empty bare repository whose configuration is ours."""
    path.mkdir(parents=True)
    await runner.run("init", "--bare", "--quiet", "--template=", str(path), cwd=path)
    (path / "config").write_text(CONFIG)
    made = Repository(path, runner)
    await made.set_default_branch(default_branch)
    return made
