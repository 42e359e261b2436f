"""The people's hands: moves through GitHub's ordinary API, each with its owner's token."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import quote

from hostler.cli.demo.cast import MAINTAINER, Plot
from hostler.cli.demo.story import (
    AnswerQuestion,
    Approve,
    CommentOnLine,
    EditRemark,
    FileIssue,
    Merge,
    Move,
)
from hostler.errors import HostlerError

if TYPE_CHECKING:
    import httpx

    from hostler.sandbox.server import Running


class Refused(HostlerError):
    """GitHub did not let somebody do what they wanted."""


class People:
    """Everybody, with a client each."""

    def __init__(self, sandbox: Running) -> None:
        self._sandbox = sandbox
        self._clients: dict[str, httpx.Client] = {}

    def close(self) -> None:
        """Hang up."""
        for client in self._clients.values():
            client.close()

    def fill(self, plot: Plot) -> None:
        """The maintainer puts the first files into the repositories."""
        for project in plot.projects:
            for path, text in project.files.items():
                where = f"/repos/{project.name}/contents/{quote(path)}"
                content = base64.b64encode(text.encode()).decode()
                fields = {"message": f"Add {path}", "content": content}
                self._call(MAINTAINER, "PUT", where, **fields)

    def act(self, move: Move) -> None:
        """Do a move. Raises `Refused`."""
        match move:
            case FileIssue(new):
                fields = {"title": new.title, "body": new.body, "labels": [new.label]}
                self._call(move.who, "POST", f"/repos/{new.repo}/issues", **fields)
            case CommentOnLine():
                self._comment_on_line(move)
            case EditRemark(repo, remark, body, who):
                self._call(who, "PATCH", f"/repos/{repo}/pulls/comments/{remark}", body=body)
            case AnswerQuestion(repo, issue, body, who):
                self._call(who, "POST", f"/repos/{repo}/issues/{issue}/comments", body=body)
            case Approve(repo, pull, head, who):
                fields = {"event": "APPROVE", "commit_id": head}
                self._call(who, "POST", f"/repos/{repo}/pulls/{pull}/reviews", **fields)
            case Merge(repo, pull, head, who):
                # With the sha that was approved: what came later has not been looked at.
                self._call(who, "PUT", f"/repos/{repo}/pulls/{pull}/merge", sha=head)
            case _:
                assert_never(move)

    def _comment_on_line(self, move: CommentOnLine) -> None:
        where = f"/repos/{move.repo}/contents/{quote(move.path)}?ref={move.head}"
        text = base64.b64decode(self._call(move.who, "GET", where)["content"]).decode()
        lines = enumerate(text.splitlines(), start=1)
        line = next((number for number, one in lines if move.near in one), 1)
        spot = {"commit_id": move.head, "path": move.path, "line": line, "side": "RIGHT"}
        where = f"/repos/{move.repo}/pulls/{move.pull}/comments"
        self._call(move.who, "POST", where, body=move.body, **spot)

    def _call(self, who: str, method: str, where: str, **fields: Any) -> Any:
        import httpx

        client = self._clients.get(who)
        if client is None:
            client = self._clients[who] = self._sandbox.client(who)
        try:
            answer = client.request(method, where, json=fields or None)
        except httpx.HTTPError as error:
            raise Refused(f"{who}: {method} {where}: {error}") from error
        if not answer.is_success:
            raise Refused(f"{who}: {method} {where}: {answer.status_code} {answer.text[:200]}")
        return answer.json()
