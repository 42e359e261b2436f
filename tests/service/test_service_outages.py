"""A GitHub that is down, fails or talks nonsense, and clocks that jump: all of it is outlived."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from broken_road import answer
from rough_town import (
    REVIEW,
    Gate,
    MakeTown,
    Plot,
    in_state,
    require_no_defect,
    settle,
    task_in,
    written,
)
from service_town import BOB, Service

from hostler.store.tasks import TaskState

DAY = 86_400
NONSENSE = {
    "a cut answer": answer(b'{"id": 1, "title": "Half')[:-5],
    "a page for people": answer(b"<html>Unicorn!</html>", "text/html"),
    "an object for a list": answer(b"{}"),
    "items without sense": answer(b'[{"id": "x", "number": null, "updated_at": 3}]'),
    "another protocol": b"SSH-2.0-OpenSSH_9\r\n",
}


def last_words(service: Service) -> list[str]:
    """What was told last about each repository."""
    return list({line.partition(":")[0]: line for line in service.told}.values())


def fail_to_look(service: Service, repos: int) -> None:
    """Until every repository could not be looked at."""
    service.poll()

    def seen() -> bool:
        return sum("reached again" not in line for line in last_words(service)) == repos

    service.until(seen, "failing looks")


def look_again(service: Service) -> None:
    """Until every repository is reached again."""
    service.poll()
    service.until(lambda: all("reached again" in line for line in last_words(service)), "looks")


@pytest.mark.long
def test_a_github_that_is_down_or_talks_nonsense_and_comes_back(
    rough: MakeTown, tmp_path: Path
) -> None:
    gate = Gate(tmp_path, "field")
    town = rough(Plot("field", agent=gate.agent()), Plot("meadow"))
    with town.on_a_road() as road, town.service() as service, ExitStack() as outage:
        numbers = {"field": town.file("field")}
        service.poll()
        with gate.held():
            service.until(lambda: written(service))
            for nonsense in NONSENSE.values():
                with road.talking(nonsense):
                    fail_to_look(service, repos=3)
                look_again(service)
            outage.enter_context(road.closed())
        # Its agent is done, and nothing can be pushed.
        service.until(in_state(service, "field", TaskState.PARKED))
        fail_to_look(service, repos=3)
        assert all("Check the network" in line for line in last_words(service))
        outage.close()
        look_again(service)
        numbers["meadow"] = town.file("meadow")
        town.clock.jump(100)
        service.poll()
        for name in numbers:
            service.until(in_state(service, name, REVIEW), name)
        service.rested()
        for name, number in numbers.items():
            assert len(town.of(name).pulls()) == len(town.said(name, number)) == 1
        require_no_defect(service)


@pytest.mark.soak
def test_a_storm_of_failing_answers_makes_nothing_twice(rough: MakeTown) -> None:
    names = ("field", "meadow", "brook")
    town = rough(*(Plot(name) for name in names))
    with town.service() as service:
        for seed, kind in enumerate(("fail_before", "fail_after", "fail_before")):
            storm = {"kind": kind, "status": 502 + seed, "probability": 0.15, "seed": seed}
            town.control("/faults", **storm, count=None, route="/repos/*")
        numbers = {name: town.file_through_a_storm(name) for name in names}

        def seen() -> bool:
            if all(in_state(service, name, REVIEW)() for name in names) and written(service):
                return True
            # What may have happened is looked for until GitHub's time says that it has not.
            town.control("/clock", advance=60)
            town.clock.jump(60)
            service.poll()
            return False

        service.until(seen, "the end of the storm", 100)
        town.hub.control.delete("/faults")
        service.rested()
        for name, number in numbers.items():
            assert len(town.of(name).pulls()) == len(town.said(name, number)) == 1
        require_no_defect(service)


@pytest.mark.long
def test_our_own_clock_jumps_and_is_set_right(rough: MakeTown, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    town = rough(Plot("field", {"setup_command": f"test -e {ready}"}), Plot("meadow"))
    with town.service() as service:
        town.clock.jump(DAY)
        comments = "/repos/alice/field/issues/comments/*"
        town.control("/faults", kind="status", status=403, method="PATCH", route=comments)
        number = town.file("field")
        service.poll()
        service.until(in_state(service, "field", TaskState.PARKED))
        service.until(lambda: not written(service))
        # The task and a write wait for a time tomorrow.
        town.clock.jump(-DAY)
        ready.touch()
        town.file("meadow")
        service.poll()
        for name in ("field", "meadow"):
            service.until(in_state(service, name, REVIEW), name)
        service.rested()
        (status,) = town.said("field", number)
        assert "awaiting feedback" in status
        require_no_defect(service)


@pytest.mark.long
def test_githubs_clock_jumps_and_is_set_right(rough: MakeTown) -> None:
    town = rough(Plot("field"), Plot("meadow"))
    with town.service() as service:
        town.control("/clock", advance=3 * DAY)
        town.file("field")
        settle(service, "field")
        town.control("/clock", real=True)
        town.file("meadow")
        again = town.file("field")
        tasks = settle(service, "meadow")
        service.task(again, REVIEW)
        town.of("meadow", BOB).say(tasks["meadow"].pr_number or 0, "More, please.")
        service.poll()
        service.until(lambda: (task_in(service, "meadow") or tasks["meadow"]).turn == 2)
        service.rested()
        require_no_defect(service)
