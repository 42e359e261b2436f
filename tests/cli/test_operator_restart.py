"""`/hostler restart` on GitHub restarts the real program, and is answered once when it is back."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_program import Program
from service_town import PLAY, github

from hostler.model import RepoName
from hostler.store import open_store
from hostler.store.operator import CommandStatus, commands_in


class Commanded(Program):
    """A service with an operator and an operations issue, the first there is."""

    def settings(self) -> str:
        more = 'operator_logins = ["alice"]\noperations_issue_number = 1\n\n[agent.helper]'
        return super().settings().replace("[agent.helper]", more)

    def logged(self) -> str:
        return "".join(file.read_text() for file in (self.home / "logs").glob("*.jsonl"))

    def comments(self) -> list[str]:
        found = self.hub.client("alice").get("/repos/alice/stable/issues/1/comments").json()
        return [one["body"] for one in found if one["user"]["login"] != "alice"]

    def statuses(self) -> list[CommandStatus]:
        store = open_store(self.home)
        try:
            with store.read() as tx:
                rows = commands_in(tx, RepoName("alice", "stable"), tuple(CommandStatus))
            return [row.status for row in rows]
        finally:
            store.close()


@pytest.mark.long
def test_a_restart_from_github_is_answered_by_the_program_that_came_back(
    tmp_path: Path, environment: dict[str, str]
):
    with github() as hub:
        town = Commanded(hub, tmp_path, PLAY, environment)
        assert town.files("Operations") == 1
        say = {"body": "/hostler restart"}
        try:
            # History: said before anybody read it.
            hub.client("alice").post("/repos/alice/stable/issues/1/comments", json=say)
            service = town.start()
            town.heard(service, "Watching")
            town.until(lambda: "service_repo_polled" in town.logged(), "a first look")
            hub.client("alice").post("/repos/alice/stable/issues/1/comments", json=say)
            town.heard(service, "Restarted: Hostler")
            town.until(town.comments, "a reply")
            assert town.statuses() == [CommandStatus.APPLIED]
            town.end(service)
        finally:
            town.clean()
        (reply,) = town.comments()
        assert reply.startswith("@alice: Restarted.")
