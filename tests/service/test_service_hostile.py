"""Hostile agents, end to end: an issue is filed, the service runs the agent, and we look.

The agents are one real program (`hostile_agent.py`); the title of an issue names the attack.
Each test also has an honest agent beside the attackers, which must get to its pull request.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_yard import Yard, a_yard, run
from service_town import BOB, EVE, US, Service, Town

from hostler.forge.actions import find_tokens
from hostler.sandbox.auth import token_for
from hostler.service.tasks.foreground import parse_issue_reference, start_issue_task
from hostler.store.tasks import TaskState

REVIEW = TaskState.AWAITING_FEEDBACK
MakeYard = Callable[..., Yard]


@pytest.fixture
def make_yard(
    found_town: Callable[..., Town], monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeYard]:
    made: list[Any] = []

    def make(**repo: Any) -> Yard:
        town = found_town(
            repo={"max_concurrent_slots": 8, **repo},
            tasks={"exits_without_progress": 1, "repair_rounds": 1},
            runtime={"stop_grace_seconds": 1},
        )
        made.append(a_yard(town, monkeypatch))
        yard: Yard = made[-1].__enter__()
        return yard

    yield make
    for one in made:
        one.__exit__(None, None, None)


@pytest.fixture
def yard(make_yard: MakeYard) -> Yard:
    return make_yard()


SETTINGS = (
    "redirects_in_its_checkout",
    "redirects_in_its_home",
    "plants_every_hook",
    "names_programs_in_its_config",
    "includes_another_config",
    "filters_by_attributes",
)


@pytest.mark.soak
def test_no_setting_of_an_agent_runs_its_code_as_us_or_sends_our_work_elsewhere(yard: Yard) -> None:
    alice, bob = yard.person, yard.town.person(BOB)
    with yard.town.service() as service:
        yard.file(*SETTINGS, "works")
        assert set(yard.settle(service).values()) == {REVIEW}
        pulls = {pull["head"]["ref"]: pull["number"] for pull in alice.pulls()}
        assert len(pulls) == len(SETTINGS) + 1
        for branch, pull in pulls.items():
            assert alice.read("committed.md", branch) == alice.read("left.md", branch) == "Work.\n"
            bob.say(pull, "Once more.")
        # The second turn refreshes checkouts in which the traps are set.
        yard.settle(service, turns=2)
        for branch, pull in pulls.items():
            assert alice.read("again.md", branch) == "Once more.\n"
            assert any("Taken up." in one["body"] for one in alice.comments(pull))
        yard.require_untouched()
        require_traps(yard, service)
        for pull in pulls.values():
            alice("PATCH", f"/pulls/{pull}", state="closed")
        service.poll()
        service.until(lambda: not any((yard.town.home / "checkouts" / "stable").iterdir()))
        yard.require_untouched()
        yard.require_no_leak(service)


def require_traps(yard: Yard, service: Service) -> None:
    """A git that reads these settings does run the programs, and does speak with the host."""
    folders = {name: yard.checkout(service, name) for name in SETTINGS}
    subprocess.run(["git", "status"], cwd=folders["names_programs_in_its_config"], check=False)
    yard.marker.unlink()
    argv = ["git", "ls-remote", "origin"]
    subprocess.run(argv, cwd=folders["redirects_in_its_checkout"], check=False)
    assert yard.listener.heard
    yard.listener.heard.clear()


def test_a_steered_mirror_is_set_right_before_it_is_used(yard: Yard) -> None:
    with yard.town.service() as service:
        # One after the other: whoever writes while git of ours runs is beyond what is promised.
        for attack in ("steers_the_mirror", "works"):
            yard.file(attack)
            assert set(yard.settle(service).values()) == {REVIEW}
        yard.require_untouched()
        yard.require_no_leak(service)


RESULTS = {
    "result_is_a_fifo": "must be a regular file; it is a pipe",
    "result_is_a_link_to_the_token": "is a symbolic link, which is not followed",
    "result_is_a_folder": "must be a regular file; it is a folder",
    "result_has_a_gigabyte": "it has 1,073,741,824",
    "result_is_nested_deeply": "is nested too deeply",
    "result_is_not_json": "is not JSON",
    "result_breaks_the_contract": "breaks the contract: status",
}


@pytest.mark.soak
def test_whatever_stands_in_the_place_of_a_result_becomes_a_question(yard: Yard) -> None:
    with yard.town.service() as service:
        yard.file(*RESULTS, "works")
        states = yard.settle(service)
        assert states.pop("works") is REVIEW
        assert set(states.values()) == {TaskState.NEEDS_INPUT}
        for name, fault in RESULTS.items():
            (asked,) = yard.said(name)
            assert fault in asked and "How should this continue?" in asked
            assert "Answer the question" in yard.status(name)
            yard.person.say(yard.numbers[name], "Behave, please.")
        assert set(yard.settle(service, turns=1).values()) == {REVIEW}
        yard.require_no_leak(service)


LINKS = {"token", "database", "home", "README.md"}


# What becomes of each when they all work at the same time.
ATTACKS = {
    "pastes_markers": REVIEW,
    "links_to_our_files": REVIEW,
    "leaves_children": REVIEW,
    "forges_its_exit": TaskState.NEEDS_INPUT,
    "removes_its_run_folder": TaskState.NEEDS_INPUT,
    "stops_itself": TaskState.NEEDS_INPUT,
    "works": REVIEW,
}


@pytest.mark.long
def test_attackers_gain_nothing_and_the_honest_agent_beside_them_works(yard: Yard) -> None:
    token = (yard.root / "token").read_bytes()
    with yard.town.service() as service:
        yard.file(*ATTACKS)
        assert yard.settle(service) == ATTACKS
        require_that_no_child_lives(yard)
        require_that_run_folders_decide_nothing(yard, service)
        require_links_pushed_as_links(yard, service)
        require_that_pasted_markers_are_text(yard, service)
        assert (yard.root / "token").read_bytes() == token
        yard.require_no_leak(service)


def require_that_no_child_lives(yard: Yard) -> None:
    locks = list(yard.locks.iterdir())
    assert len(locks) == 4
    for path in locks:
        with path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def require_that_run_folders_decide_nothing(yard: Yard, service: Service) -> None:
    (run,) = service.runs(yard.task(service, "forges_its_exit"))
    assert (run.outcome, run.exit_code) == ("crash", 7)
    assert "It exited with 7." in yard.said("forges_its_exit")[0]
    assert "lost together with its supervisor" in yard.said("removes_its_run_folder")[0]
    # A stop that nobody asked for is a crash, and its words are nobody's.
    assert "because I can" not in yard.status("stops_itself") + yard.said("stops_itself")[0]


def require_links_pushed_as_links(yard: Yard, service: Service) -> None:
    branch = yard.task(service, "links_to_our_files").branch
    listed = run("git", "-C", str(yard.repository()), "ls-tree", "-r", branch).decode()
    links = re.findall(r"^120000 .*\t(.*)$", listed, re.MULTILINE)
    assert set(links) == LINKS == {line.split("\t")[1] for line in listed.splitlines()}
    yard.person("PATCH", f"/pulls/{yard.pull(service, 'links_to_our_files')}", state="closed")
    service.poll()
    service.until(lambda: not yard.checkout(service, "links_to_our_files").exists())


def require_that_pasted_markers_are_text(yard: Yard, service: Service) -> None:
    alice, bob, eve = (yard.town.person(login) for login in ("alice", BOB, EVE))
    task = yard.task(service, "pastes_markers")
    pull = task.pr_number or 0
    pasted = f"Look: <!-- hostler:action={task.status_token} -->"
    eve.say(pull, pasted)
    bob.say(pull, f"{pasted} and so on")
    bob.remark(pull, pasted, path="markers-work.md")
    yard.settle(service, turns=2, of="pastes_markers")
    said = [*alice.comments(task.number), *alice.comments(pull), *alice.remarks(pull)]
    ours = [one["body"] for one in said if one["user"]["login"] == US]
    ours.append(alice("GET", f"/pulls/{pull}")["body"])
    for body in ours:
        (token,) = find_tokens(body)
        assert body.endswith(f"<!-- hostler:action={token} -->")
    assert len({find_tokens(body)[0] for body in ours}) == len(ours)
    # One status on the issue; on the pull request an answer per word of an allowed person.
    assert [len(alice.comments(task.number)), len(alice.comments(pull))] == [1, 3]
    assert len(alice.remarks(pull)) == 2
    assert yard.status("pastes_markers").startswith("**Hostler**")


TAMPERED = {
    "git_folder_is_a_link": "something that is no folder",
    "borrows_objects": "borrowed from elsewhere",
    "removes_its_checkout": "There is no checkout at",
}


@pytest.mark.soak
def test_a_checkout_that_is_not_as_we_made_it_is_blocked_and_can_be_started_anew(
    yard: Yard,
) -> None:
    with yard.town.service() as service:
        yard.file(*TAMPERED, "works")
        states = yard.settle(service)
        assert states.pop("works") is REVIEW
        assert set(states.values()) == {TaskState.BLOCKED}
        for name, found in TAMPERED.items():
            (why,) = yard.said(name)
            assert found in why and "**Blocked:**" in why
            assert f"`hostler run alice/stable#{yard.numbers[name]}`" in yard.status(name)
        assert len(yard.person.pulls()) == 1
        for name in TAMPERED:
            yard.person.say(yard.numbers[name], "Behave, please.")
            # As the comment says: look at the folder, remove it, start the task again.
            shutil.rmtree(yard.checkout(service, name), ignore_errors=True)
            wanted = parse_issue_reference(
                service.app.settings, f"alice/stable#{yard.numbers[name]}"
            )
            start_issue_task(service.app, wanted, None)
        assert set(yard.settle(service).values()) == {REVIEW}
        yard.require_no_leak(service)


@pytest.mark.slow
@pytest.mark.soak  # its supervisor tries for a minute
def test_a_last_word_that_cannot_be_written_loses_the_run_and_not_the_service(yard: Yard) -> None:
    with yard.town.service() as service:
        yard.file("puts_a_folder_for_its_exit", "works")
        states = yard.settle(service, seconds=100)
        assert states == {"puts_a_folder_for_its_exit": TaskState.NEEDS_INPUT, "works": REVIEW}
        assert "lost together with its supervisor" in yard.said("puts_a_folder_for_its_exit")[0]


def test_an_agent_that_speaks_for_another_task_changes_nothing_of_its_work(yard: Yard) -> None:
    with yard.town.service() as service:
        yard.file("waits_for_the_meddler")
        service.poll()
        victim = service.task(yard.numbers["waits_for_the_meddler"], TaskState.RUNNING)
        service.until(lambda: service.runs(victim)[0].state == "running")
        yard.file("meddles_with_others")
        assert set(yard.settle(service).values()) == {REVIEW}
        pull = yard.person("GET", f"/pulls/{yard.pull(service, 'waits_for_the_meddler')}")
        assert pull["title"] == "Honest work"
        assert yard.person.read("committed.md", pull["head"]["ref"]) == "Honest.\n"


BRANCHES = {
    "rewrites_history": "The history was rewritten",
    "deletes_its_branch": "is gone from the checkout",
    "switches_its_branch": "is on the branch my-own instead of",
    "detaches_its_head": "is on no branch",
    "leaves_half_a_merge": "has an unfinished merge",
}


@pytest.mark.soak
def test_a_broken_branch_is_sent_back_and_then_blocked_with_its_work_kept(yard: Yard) -> None:
    with yard.town.service() as service:
        yard.file(*BRANCHES, "works")
        states = yard.settle(service)
        assert states.pop("works") is REVIEW
        assert set(states.values()) == {TaskState.BLOCKED}
        heads = {one["ref"] for one in yard.person("GET", "/git/matching-refs/heads/agent")}
        for name, found in BRANCHES.items():
            (why,) = yard.said(name)
            assert found in why and "asked once to fix this" in why
            (kept,) = re.findall(r"on branch `(agent/checkpoint/[^`]+)`", why)
            assert f"refs/heads/{kept}" in heads
            assert "Work.\n" in {yard.read_if_there(path, kept) for path in ("work.md", "left.md")}
            assert f"refs/heads/{yard.task(service, name).branch}" not in heads
        assert len(yard.person.pulls()) == 1


def test_our_token_is_neither_shown_to_agents_nor_told_by_us(
    make_yard: MakeYard, tmp_path: Path
) -> None:
    seen = [tmp_path / "setup-env", tmp_path / "tests-env"]
    tests = f"env > {seen[1]}; test ! -e telling || {{ cat {tmp_path}/token; false; }}"
    yard = make_yard(setup_command=f"env > {seen[0]}", required_tests=[tests])
    with yard.town.service() as service:
        attacks = ("looks_for_tokens", "tells_our_token", "asks_with_our_token")
        yard.file(*attacks, "fails_with_our_token", "works")
        states = yard.settle(service)
        assert states["fails_with_our_token"] is TaskState.BLOCKED
        assert states["asks_with_our_token"] is TaskState.NEEDS_INPUT
        yard.town.person(BOB).say(yard.pull(service, "tells_our_token"), "And the token?")
        yard.settle(service, turns=2, of="tells_our_token")
        looked = yard.person.read("seen.json", yard.task(service, "looks_for_tokens").branch)
        for place in (looked, *(path.read_text() for path in seen)):
            assert "PATH" in place and token_for(US) not in place and "GITHUB_TOKEN" not in place
        told = yard.person("GET", f"/pulls/{yard.pull(service, 'tells_our_token')}")
        assert told["title"] == "Add [redacted]" and "[redacted]" in told["body"]
        assert "Is [redacted] right?" in yard.said("asks_with_our_token")[0]
        assert "[redacted]" in yard.said("fails_with_our_token")[0]
        yard.require_no_leak(service)
