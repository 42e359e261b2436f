"""Bad input, end to end: one clear message, and everything else goes on to its pull request."""

from __future__ import annotations

import base64
from contextlib import ExitStack
from pathlib import Path

import pytest
from rough_town import (
    REVIEW,
    Gate,
    MakeTown,
    Plot,
    RoughTown,
    in_state,
    python,
    require_no_defect,
    settle,
    task_in,
    written,
)
from service_town import BOB, US, Service

from hostler.sandbox.auth import SandboxToken, fingerprint, token_for
from hostler.store.runs import live_runs
from hostler.store.tasks import TaskState

PARKED, ASKING, BLOCKED = TaskState.PARKED, TaskState.NEEDS_INPUT, TaskState.BLOCKED
STOPPED = TaskState.STOPPED


# -- repositories and agents that are not as the settings say

SAY_NONSENSE = "import os; open(os.environ['HOSTLER_RESULT'], 'w').write('All done!')"
SAY_AND_WAIT = "import signal; print('One moment.', flush=True); signal.pause()"
WORK = "#!/bin/sh\necho done > work.md\nhostler done --summary Worked\n"
# What each comes to, and words that must be in the one message about it.
ENDS = {
    "empty": (PARKED, "it has no commits yet", "push a first commit"),
    "baseless": (PARKED, "has no branch nowhere (it has main)", "Set `base_branch`"),
    "uninstalled": (PARKED, "No such file or directory", "install it, or fix"),
    "unscripted": (PARKED, "wrong.toml has 1 mistake: ", "docs/internals/agents.md"),
    "unprepared": (PARKED, "The setup command", "no compiler", "Fix `setup_command`"),
    "readonly": (PARKED, "denied to hostler-bot", "Give the token read and write access"),
    "untested": (BLOCKED, "failed", "boom", "asked once to fix this", "agent/checkpoint/1-notes-"),
    "babbling": (ASKING, "result.json is not JSON", "How should this continue?"),
    "crashing": (ASKING, "It exited with 3.", "How should this continue?"),
    "endless": (ASKING, "It reached its time limit", "How should this continue?"),
    "silent": (ASKING, "It was silent for too long", "How should this continue?"),
}
# These never get as far as an issue: whoever runs the service is told, once.
TOLD = {
    "missing": ("404", "Check the name"),
    "closed": (),
    "orphaned": ("has no agent there", "name its agent"),
    "indiscreet": ("may not see GITHUB_TOKEN", "Take the name out"),
}


@pytest.mark.long
def test_each_bad_repository_or_agent_gets_one_message_and_the_others_go_on(
    rough: MakeTown, tmp_path: Path
) -> None:
    ready, program = tmp_path / "ready", tmp_path / "agent"
    script = tmp_path / "wrong.toml"
    script.write_text("version = 1\nsteps = [{ sayy = 1 }]\n")
    prepare = f"test -e {ready} || {{ echo no compiler; exit 3; }}"
    town = rough(
        Plot("missing", seed=None),
        Plot("closed", seed={"has_issues": False}),
        Plot("orphaned", repo={"agent": "nobody"}),
        Plot("indiscreet", agent={**python("pass"), "env": ["GITHUB_TOKEN"]}),
        Plot("empty", seed={"auto_init": False}),
        Plot("baseless", repo={"base_branch": "nowhere"}),
        Plot("uninstalled", agent={"kind": "command", "command": [str(program)]}),
        Plot("unscripted", agent={"kind": "scripted", "script": str(script)}),
        Plot("unprepared", repo={"setup_command": prepare}),
        Plot("readonly", access="read"),
        Plot("untested", repo={"required_tests": ["echo boom; exit 1"]}),
        Plot("babbling", agent=python(SAY_NONSENSE)),
        Plot("crashing", agent=python("raise SystemExit(3)")),
        Plot("endless", agent=python(SAY_AND_WAIT), beyond={"wall_limit_minutes": 0.02}),
        Plot("silent", agent=python(SAY_AND_WAIT)),
        Plot("fine"),
        tasks={"exits_without_progress": 1, "repair_rounds": 1},
        beyond={"silence_limit_minutes": 0.1},
    )
    with town.service() as service:
        numbers = {name: town.file(name) for name in (*ENDS, "orphaned", "indiscreet", "fine")}
        tasks = settle(service, *ENDS, "fine")
        assert {name: task.state for name, task in tasks.items()} == {
            **{name: state for name, (state, *_) in ENDS.items()},
            "fine": REVIEW,
        }
        for name, (_, *words) in ENDS.items():
            require_message(town, name, numbers[name], words)
        for name, words in TOLD.items():
            told = [line for line in service.told if line.startswith(f"alice/{name}:")]
            assert len(told) == bool(words)
            assert all(word in line for word in words for line in told)
        assert len(service.told) == 3
        require_no_defect(service)
        mend(town, ready, program)
        town.clock.jump(700)
        service.poll()
        for name in ("empty", "baseless", "uninstalled", "unprepared", "readonly"):
            service.until(in_state(service, name, REVIEW), name)
        service.rested()


def require_message(town: RoughTown, name: str, number: int, words: list[str]) -> None:
    """The status, and one comment where a person is needed, say what happened and what to do."""
    said = town.said(name, number)
    assert len(said) <= 2, said
    assert all(word in " ".join(said) for word in words), (words, said)


def mend(town: RoughTown, ready: Path, program: Path) -> None:
    """Everything that only waits for somebody to act."""
    first = {"message": "First", "content": base64.b64encode(b"first").decode()}
    town.of("empty")("PUT", "/contents/README.md", **first)
    head = town.of("baseless")("GET", "/git/ref/heads/main")["object"]["sha"]
    town.of("baseless")("POST", "/git/refs", ref="refs/heads/nowhere", sha=head)
    town.of("readonly")("PUT", f"/collaborators/{US}", permission="push")
    ready.touch()
    program.write_text(WORK)
    program.chmod(0o755)


# -- what people do on GitHub while an agent works


@pytest.mark.soak
def test_what_is_taken_away_while_an_agent_works(rough: MakeTown, tmp_path: Path) -> None:
    names = ("deleted", "transferred", "renamed", "demoted", "archived", "removed", "fine")
    gates = {name: Gate(tmp_path, name) for name in names}
    plots = [Plot(name, {"max_concurrent_slots": 1}, gates[name].agent()) for name in names]
    town = rough(*plots)
    with town.service() as service:
        numbers = {name: town.file(name) for name in names}
        service.poll()
        with ExitStack() as stack:
            for gate in gates.values():
                stack.enter_context(gate.held())
            # A second one waits for the place of the first.
            later = town.file("deleted")
            service.poll()
            service.task(later, TaskState.QUEUED)
            service.until(lambda: written(service))
            for number in (numbers["deleted"], later):
                town.control("/issues/delete", repo="alice/deleted", number=number)
            moved = {"repo": "alice/transferred", "number": numbers["transferred"]}
            town.control("/issues/transfer", **moved, to="alice/barn")
            town.of("renamed")("PATCH", "", name="newname")
            town.of("demoted")("PUT", f"/collaborators/{US}", permission="pull")
            town.of("archived")("PATCH", "", archived=True)
            town.of("removed")("DELETE", "")
        for name in ("transferred", "fine"):
            service.until(in_state(service, name, REVIEW), name)
        for name in ("renamed", "demoted", "archived", "removed"):
            service.until(in_state(service, name, PARKED), name)
        # The work is not thrown away; what had not begun does not begin.
        service.until(lambda: len(town.of("deleted").pulls()) == 1)
        gone = service.task(later, STOPPED)
        assert "This issue was deleted" in gone.reason
        reasons = {name: (task_in(service, name) or gone).reason for name in names}
        assert "Write the repository's new name into the settings." in reasons["renamed"]
        assert "Check the repository's name" in reasons["removed"]
        service.poll()
        service.until(lambda: any("alice/newname" in line for line in service.told))
        service.until(lambda: "denied to hostler-bot" in town.said("demoted", 1)[0])
        town.of("demoted")("PUT", f"/collaborators/{US}", permission="push")
        town.of("archived")("PATCH", "", archived=False)
        town.clock.jump(700)
        service.poll()
        for name in ("demoted", "archived"):
            service.until(in_state(service, name, REVIEW), name)
        assert sum("alice/newname" in line for line in service.told) == 1
        require_no_defect(service)


@pytest.mark.soak
def test_a_pull_request_that_a_person_ends_while_its_agent_works(
    rough: MakeTown, tmp_path: Path
) -> None:
    names = ("shut", "pruned", "fine")
    gates = {name: Gate(tmp_path, name) for name in names}
    town = rough(*(Plot(name, agent=gates[name].agent()) for name in names))
    with town.service() as service:
        for name in names:
            town.file(name)
        service.poll()
        for gate in gates.values():
            with gate.held():
                pass
        tasks = settle(service, *names)
        for name in names:
            town.of(name, BOB).say(tasks[name].pr_number or 0, "More, please.")
        service.poll()
        with gates["shut"].held(), gates["pruned"].held(), gates["fine"].held():
            town.of("shut")("PATCH", f"/pulls/{tasks['shut'].pr_number}", state="closed")
            town.of("pruned")("DELETE", f"/git/refs/heads/{tasks['pruned'].branch}")
            service.poll()
            for name in ("shut", "pruned"):
                service.until(in_state(service, name, STOPPED), name)
                last = service.runs(tasks[name])[-1].run
                service.until(lambda run=last: run not in live(service))
        service.until(lambda: (task_in(service, "fine") or tasks["fine"]).turn == 2)
        service.rested()
        for name in ("shut", "pruned"):
            (status,) = town.said(name, 1)
            assert "was closed without merging" in status and "to start again" in status
            assert len(town.of(name).pulls()) == 1
        require_no_defect(service)


def live(service: Service) -> set[str]:
    with service.app.store.read() as tx:
        return {run.run for run in live_runs(tx)}


def test_a_token_that_is_revoked_while_an_agent_works_and_replaced_later(
    rough: MakeTown, tmp_path: Path
) -> None:
    gate = Gate(tmp_path, "field")
    town = rough(Plot("field", agent=gate.agent()))
    with town.service() as service:
        number = town.file("field")
        service.poll()
        with gate.held():
            service.until(lambda: written(service))
            town.hub.do(lambda world: world.remove(world.truth.find(SandboxToken, name_of(US))))
            service.poll()
            service.until(lambda: len(service.told) == 2)
        service.until(in_state(service, "field", PARKED))
        assert all("401" in line and "a valid token" in line for line in service.told)
        fresh = "ghp_" + "n" * 36
        town.hub.do(lambda world: world.put(SandboxToken(world.count("id:token"), fresh, US)))
        (tmp_path / "token").write_text(fresh)
        town.clock.jump(700)
        service.poll()
        service.until(in_state(service, "field", REVIEW))
        service.rested()
        assert len(town.said("field", number)) == 1
        require_no_defect(service)


def name_of(login: str) -> str:
    return fingerprint(token_for(login))
