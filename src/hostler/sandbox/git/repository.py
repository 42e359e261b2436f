"""One bare repository: where it lies, how it is configured, how git is asked about it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostler.sandbox.git import names, objects
from hostler.sandbox.git.process import Output, Person, Runner

# Outputs about objects that are kept: so many, each not longer than this.
MAX_KEPT = 1000
MAX_KEPT_BYTES = 65_536
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
    _kept: OrderedDict[tuple[str, ...], Output] = field(default_factory=OrderedDict)

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

    async def read(
        self,
        *args: str,
        about: tuple[str, ...],
        accept: tuple[int, ...] = (0,),
        final: tuple[int, ...] = (0,),
    ) -> Output:
        """Run a git command that reads nothing but the objects `about`.

        Objects never change, so the output is kept where `about` are full shas and the exit code
        is one of `final`: one that does not say that an object is missing.
        """
        known = self._kept.get(args)
        if known is not None:
            self._kept.move_to_end(args)
            return known
        output = await self.git(*args, accept=accept)
        if all(map(names.is_sha, about)) and output.code in final:
            self._keep(args, output)
        return output

    def _keep(self, args: tuple[str, ...], output: Output) -> None:
        if len(output.out) <= MAX_KEPT_BYTES:
            self._kept[args] = output
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)

    async def write_blob(self, data: bytes) -> str:
        """Store a file's content; its sha."""
        return await asyncio.to_thread(objects.write, self.path, "blob", data)

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
        tree = objects.write(self.path, "tree", objects.tree_of_file("README.md", blob))
        commit = await self.write_commit(tree, (), "Initial commit\n", person, person)
        await self.git("update-ref", names.branch_ref(branch), commit, names.ZERO)
        return commit

    async def set_default_branch(self, branch: str) -> None:
        """Point HEAD at `branch`, whether or not it exists yet."""
        await self.git("symbolic-ref", "HEAD", names.branch_ref(branch))


async def create(path: Path, runner: Runner, default_branch: str) -> Repository:
    """Make an empty bare repository whose configuration is ours."""
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (path / folder).mkdir(parents=True)
    (path / "HEAD").write_text(f"ref: {names.branch_ref(default_branch)}\n", encoding="utf-8")
    (path / "config").write_text(CONFIG)
    return Repository(path, runner)
