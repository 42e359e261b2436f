"""Every cap at 1, and an agent that waits for its children: on real processes, some killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from task_program import Home, let_go

# GitHub is nowhere: only the width of the project is wanted.
ONE_OF_EACH = """
[github]
api_url = "http://127.0.0.1:9"
web_url = "http://127.0.0.1:9"

[runtime]
worker_count = 1
max_global_agents = 1
stop_grace_seconds = 1

[tasks]
max_concurrent_runs = 1
max_concurrent_root_tasks = 1
restart_delay_seconds = 0.0

[repo.yard]
owner = "octo"
name = "yard"
max_concurrent_slots = 1
"""
NOTE = "open('story', 'a').write"


@pytest.fixture
def stead(tmp_path: Path, environment: dict[str, str], agent_commands: Path) -> Iterator[Home]:
    path = f"{agent_commands}:{environment['PATH']}"
    made = Home(tmp_path, {**environment, "PATH": path}, ONE_OF_EACH)
    yield made
    made.clean()


def waiting_parent(child: str, after: str = "") -> str:
    """A prompt: submit a child, wait for it in a process of its own, and say how that ended."""
    return f"""
child = hostler('task', 'submit', {child!r}).stdout.strip()
tell('child', child)
waiter = subprocess.Popen(['hostler', 'task', 'wait', child], stderr=subprocess.PIPE, text=True)
for line in waiter.stderr:
    if 'releases its slot' in line:
        tell('waiter', str(waiter.pid))
tell('ended', str(waiter.wait()))
{after}
done()
"""


def lent(stead: Home, task: str) -> bool:
    (run,) = stead.runs(task)
    return run.slot_released_at is not None


def test_two_children_one_after_the_other_and_the_parent_waits(stead):
    child = f"{NOTE}(os.environ['HOSTLER_TASK'] + ' begins\\n'); done(); {NOTE}('ends\\n')"
    prompt = f"""
def put(*words):
    made = hostler('task', 'submit', *words)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()

{NOTE}('parent begins\\n')
first = put({child!r}, '--title', 'first')
second = put({child!r}, '--title', 'second', '--depends-on', first)
# The last one first: only what it depends on can start.
waited = hostler('task', 'wait', second, first)
{NOTE}('parent goes on\\n')
tell('waited', f'{{waited.returncode}} {{waited.stderr}}')
done()
"""
    service = stead.start()
    parent = stead.submit(prompt)
    other = stead.submit(f"{NOTE}('other begins\\n'); done()")
    said = stead.told("waited")
    assert said.startswith("0 ") and "releases its slot while it waits" in said
    stead.reach(other, "done")
    stead.end(service)
    found = {task.title: task for task in stead.tasks()}
    assert {task.state for task in found.values()} == {"done"}
    first, second = found["first"], found["second"]
    assert (first.parent_task, second.parent_task) == (parent, parent)
    # Nobody overlaps, and a stranger does not come between a parent and its children.
    assert (stead.yard / "story").read_text().splitlines() == [
        "parent begins",
        f"{first.id} begins",
        "ends",
        f"{second.id} begins",
        "ends",
        "parent goes on",
        "other begins",
    ]
    assert [len(stead.runs(task.id)) for task in found.values()] == [1, 1, 1, 1]


def test_why_names_the_wait_and_a_place_counts_again_when_its_waiter_is_killed(stead):
    service = stead.start()
    held, parent_held = stead.pipe("held"), stead.pipe("parent_held")
    parent = stead.submit(
        waiting_parent(f"hold({str(held)!r}); done()", f"hold({str(parent_held)!r})")
    )
    waiter, child = int(stead.told("waiter")), stead.told("child")
    stead.reach(child, "running")
    assert lent(stead, parent)
    assert child in stead.json("why", parent)["why"]
    os.kill(waiter, signal.SIGKILL)
    assert stead.told("ended") == str(-signal.SIGKILL)
    stead.until(lambda: not lent(stead, parent), "the place to count")
    # Two work where one may: nothing is added until both have ended.
    other = stead.submit("done()")
    let_go(held)
    stead.reach(child, "done")
    assert stead.json("why", other)["gate"] in {"root_tasks", "workers", "runs", "cap"}
    let_go(parent_held)
    stead.reach(parent, "done")
    stead.reach(other, "done")
    stead.end(service)


def test_a_service_that_is_killed_finds_the_place_still_lent(stead):
    service, held = stead.start(), stead.pipe("held")
    parent = stead.submit(waiting_parent(f"hold({str(held)!r}); done()"))
    stead.told("waiter")
    child = stead.told("child")
    # Before its agent is there, a killed service leaves a task that is only queued.
    stead.until(lambda: [run.state for run in stead.runs(child)] == ["running"])
    stead.kill(service)
    again = stead.start()
    log = next((stead.home / "logs").glob("*.jsonl"))
    stead.until(lambda: log.read_text().count('"run_adopted"') == 2)
    assert lent(stead, parent) and stead.task(child).state == "running"
    third = stead.submit("done()")
    let_go(held)
    assert stead.told("ended") == "0"
    for task in (child, parent, third):
        stead.reach(task, "done")
    assert [run.outcome for run in stead.runs(parent)] == ["success"]
    stead.end(again)


def test_who_stops_the_parent_stops_its_children(stead):
    service, held = stead.start(), stead.pipe("held")
    parent = stead.submit(waiting_parent(f"hold({str(held)!r}); done()"))
    stead.told("waiter")
    child = stead.told("child")
    stead.reach(child, "running")
    changed = stead.json("task", "stop", parent)
    assert [one["id"] for one in changed] == [parent, child]
    stead.until(lambda: not stead.live(), "their agents' end")
    stead.until(lambda: not stead.agents(), "all processes' end")
    for task in (parent, child):
        assert stead.task(task).state == "stopped"
        assert [run.outcome for run in stead.runs(task)] == ["interrupted"]
    # Everything is free again.
    last = stead.submit("done()")
    stead.reach(last, "done")
    stead.end(service)


@pytest.mark.soak
def test_a_wait_that_takes_too_long_has_its_place_back_too(stead):
    service, held = stead.start(), stead.pipe("held")
    prompt = f"""
child = hostler('task', 'submit', {f"hold({str(held)!r}); done()"!r}).stdout.strip()
waited = hostler('task', 'wait', child, '--timeout', '0.2')
tell('waited', str(waited.returncode))
done()
"""
    parent = stead.submit(prompt)
    stead.until(lambda: len(stead.tasks()) == 2)
    child = stead.tasks()[1].id
    stead.reach(child, "running")
    let_go(held)
    assert stead.told("waited") == "75"
    for task in (parent, child):
        stead.reach(task, "done")
    stead.end(service)


@pytest.mark.soak
def test_a_family_of_three_generations_waits_for_each_other(stead):
    low = "done()"
    middle = f"assert hostler('task', 'submit', '--wait', {low!r}).returncode == 0; done()"
    service = stead.start()
    top = stead.submit(
        f"assert hostler('task', 'submit', '--wait', {middle!r}).returncode == 0; done()"
    )
    stead.reach(top, "done")
    assert [task.state for task in stead.tasks()] == ["done"] * 3
    tree = stead.json("task", "show", top)["children"]
    assert len(tree) == len(tree[0]["children"]) == 1
    stead.end(service)


@pytest.mark.soak
def test_of_two_that_want_to_wait_for_each_other_one_is_told(stead):
    prompt = """
first, second = open('ids').read().split()
other = second if os.environ['HOSTLER_TASK'] == first else first
waited = hostler('task', 'wait', other)
open('waits', 'a').write(f'{waited.returncode} {waited.stderr}\\n')
done()
"""
    both = [stead.submit(prompt), stead.submit(prompt)]
    (stead.yard / "ids").write_text(" ".join(both))
    service = stead.start()
    for task in both:
        stead.reach(task, "done")
    told = (stead.yard / "waits").read_text()
    first, second = both
    assert f"dependency cycle detected: {second} -> {first} -> {second}" in told
    assert "0 This run releases its slot" in told
    stead.end(service)


def test_two_waits_in_one_run_come_to_an_end(stead):
    """The first to return has the place; what the second waits for needs it once more."""
    child = "done()"
    prompt = f"""
def put(*words):
    return hostler('task', 'submit', *words).stdout.strip()
a = put({child!r})
c = put({child!r}, '--depends-on', a)
b = put({child!r}, '--depends-on', c)
waits = [subprocess.Popen(['hostler', 'task', 'wait', one]) for one in (a, b)]
open('waits', 'w').write(str([wait.wait() for wait in waits]))
done()
"""
    service = stead.start()
    parent = stead.submit(prompt)
    stead.reach(parent, "done")
    assert (stead.yard / "waits").read_text() == "[0, 0]"
    assert [task.state for task in stead.tasks()] == ["done"] * 4
    stead.end(service)


@pytest.mark.soak
def test_nobody_waits_for_a_task_above_its_own(stead):
    """A task ends after its children: neither would ever end."""
    child = """
waited = hostler('task', 'wait', open('top').read())
open('said', 'w').write(f'{waited.returncode} {waited.stderr}')
done()
"""
    # Whoever waits for any of two waits for neither of them for certain.
    top = f"""
open('top', 'w').write(os.environ['HOSTLER_TASK'])
both = [hostler('task', 'submit', {child!r}).stdout.strip() for _ in range(2)]
hostler('task', 'wait', '--any', *both)
done()
"""
    service = stead.start()
    name = stead.submit(top)
    stead.reach(name, "done")
    said = (stead.yard / "said").read_text()
    assert said.startswith("2 error: dependency cycle detected") and name in said
    stead.end(service)
