"""A repository on a code host: its address, and credentials for one process at a time."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from hostler.checkouts.git import Access, Git
from hostler.checkouts.names import Sha, checked_branch, sha

SCHEMES = frozenset({"https", "http", "file"})
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_PLAIN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Remote:
    """Where to fetch and push. The token is asked for anew for each command."""

    url: str
    token: Callable[[], str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in SCHEMES or not _PLAIN.fullmatch(self.url):
            raise ValueError(
                f"not an address that we fetch from: {parts.scheme}://{parts.hostname}"
            )
        if parts.username is not None or parts.password is not None:
            raise ValueError("an address must not contain credentials")
        if self.token and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ValueError("a token is not sent over plain http to another machine")

    @property
    def scheme(self) -> str:
        return urlsplit(self.url).scheme

    def access(self) -> Access:
        """What one command needs to reach it."""
        protocols = frozenset({self.scheme})
        if self.token is None or self.scheme == "file":
            return Access(self.url, protocols)
        token = self.token()
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        # Bound to this repository's address: no other one gets the header.
        header = (f"http.{self.url}.extraHeader", f"Authorization: Basic {basic}")
        return Access(self.url, protocols, (header,), (token, basic))


def remote_head(git: Git, remote: Remote, branch: str) -> Sha | None:
    """The commit that the remote's branch is at now."""
    ref = f"refs/heads/{checked_branch(branch)}"
    listed = git.using(remote.access())("ls-remote", remote.url, ref).lines
    # A pattern also matches the tails of longer names.
    return next((sha(line.split("\t")[0]) for line in listed if line.endswith(f"\t{ref}")), None)


def default_branch(git: Git, remote: Remote) -> str | None:
    """The branch that the remote's HEAD names, if it names one."""
    listed = git.using(remote.access())("ls-remote", "--symref", remote.url, "HEAD").lines
    for line in listed:
        if line.startswith("ref: refs/heads/") and line.endswith("\tHEAD"):
            return line.removeprefix("ref: refs/heads/").removesuffix("\tHEAD")
    return None
