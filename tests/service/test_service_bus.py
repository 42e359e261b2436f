"""What is said on the buses of tasks while the service works."""

from __future__ import annotations

import fcntl
import os

from service_town import ALICE
from test_service_tasks import SAY_DONE, agent, order, put, reach

from hostler.bus.bus import open_task_bus
from hostler.store.tasks import TaskState


def messages(town, task):
    page = open_task_bus(town.home, task.project, task.id).since()
    return [(message.type.value, message.body) for message in page]


def test_runs_are_told_of_from_restart_0_on(town):
    agent(
        town,
        "p = pathlib.Path('again')\nif not p.exists():\n    p.touch(); sys.exit(4)\n" + SAY_DONE,
    )
    with town.service() as service:
        done = reach(service, put(service, order(town)), TaskState.DONE)
        service.until(lambda: len(messages(town, done)) == 4)
        assert [kind for kind, _ in messages(town, done)] == [
            "RUN_START",
            "RUN_CRASH",
            "RUN_START",
            "RUN_STOP",
        ]
        bodies = [body for _, body in messages(town, done)]
        assert "restart #0" in bodies[0] and "restart #1" in bodies[2]
        assert bodies[1].startswith("crash:") and bodies[3].startswith("success:")


def test_a_task_says_what_it_waits_for_and_when_that_is_ready(town):
    agent(town, "pathlib.Path(sys.stdin.read().split()[3]).touch()\n" + SAY_DONE)
    with town.service() as service:
        first = put(service, order(town, "first"))
        second = put(service, order(town, "second", depends_on=(first.id,)))
        done = reach(service, second, TaskState.DONE)
        began = {task.id: service.runs(task)[0].admitted_at for task in (first, second)}
        assert began[first.id] < began[second.id]
        service.until(lambda: len(messages(town, done)) >= 4)
        said = messages(town, done)
        assert {kind for kind, _ in said} == {"PROGRESS", "FACT", "RUN_START", "RUN_STOP"}
        (progress,) = [body for kind, body in said if kind == "PROGRESS"]
        assert first.id in progress


def test_what_can_never_be_ready_is_said_with_what_to_do(town):
    agent(town, "sys.exit(1)\n")
    with town.service() as service:
        stuck = put(service, order(town, "stuck", depends_on=("nowhere",)))
        service.until(lambda: messages(town, stuck))
        ((kind, body),) = messages(town, stuck)
        assert kind == "PROGRESS" and "nowhere" in body
        held = reach(service, stuck, TaskState.QUEUED)
        service.until(lambda: service.all_tasks()[0].gate == "dependencies")
        assert held.attempt == 0


def test_a_question_on_the_bus_is_asked_on_github_and_its_answer_comes_back(town):
    agent(
        town,
        "import json\n"
        "post = ['hostler', 'bus', 'post', '--json', '--type', 'QUESTION', 'Which colour?']\n"
        "asked = json.loads(subprocess.run(post, check=True, capture_output=True).stdout)\n"
        "follow = subprocess.Popen(['hostler', 'bus', 'follow', '--json', '--since', asked['id']],"
        " stdout=subprocess.PIPE, text=True)\n"
        "for line in follow.stdout:\n"
        "    message = json.loads(line)\n"
        "    if message['type'] == 'USER':\n"
        "        break\n"
        "follow.kill()\n"
        "pathlib.Path('colour').write_text(message['body'] + ' ' + message['sender']['name'])\n"
        "subprocess.run(['hostler', 'done', '--summary', 'Painted.'], check=True)\n",
    )
    alice = town.person(ALICE)
    with town.service() as service:
        number = alice.file("Paint it", "agent:small-job")
        service.poll()
        service.task(number, TaskState.RUNNING)
        asked = service.until(
            lambda: [c for c in alice.comments(number) if "Which colour?" in c["body"]]
        )
        assert len(asked) == 1
        alice.say(number, "Blue.")
        service.poll()
        service.until(lambda: alice.pulls())
        (pull,) = alice.pulls()
        assert alice.read("colour", pull["head"]["ref"]) == "Blue. github:alice"
        # It was told while it worked: the same words are no second turn.
        done = service.task(number, TaskState.AWAITING_FEEDBACK)
        service.rested()
        assert len(service.runs(done)) == 1 and done.turn == 1


ASKS = "subprocess.run(['hostler', 'bus', 'post', '--type', 'QUESTION', 'Which colour?'])\n"
FINISHES = (
    "pathlib.Path('colour').write_text(sys.stdin.read())\n"
    "subprocess.run(['hostler', 'done', '--summary', 'Painted.'], check=True)\n"
)


def asked(person, number):
    return [one["body"] for one in person.comments(number) if "Which colour?" in one["body"]]


def test_a_question_in_the_last_moment_is_asked_once_and_its_answer_is_for_the_next_turn(town):
    agent(
        town,
        "n = len(list(pathlib.Path('.').glob('turn*')))\n"
        "pathlib.Path(f'turn{n}').write_text(sys.stdin.read())\n"
        f"if n == 0:\n    {ASKS}" + FINISHES,
    )
    alice = town.person(ALICE)
    with town.service() as service:
        number = alice.file("Paint it", "agent:small-job")
        service.poll()
        first = service.task(number, TaskState.AWAITING_FEEDBACK)
        service.rested()
        (text,) = asked(alice, number)
        assert "is at work" not in text
        pull = service.until(lambda: service.task(number).pr_number)
        alice.say(pull, "Blue.")
        service.poll()
        service.until(lambda: service.task(number).turn == 2)
        service.rested()
        assert len(service.runs(first)) == 2 and len(asked(alice, number)) == 1
        # No agent was at work when it was said: it is in the prompt, and not on the bus as well.
        (head,) = [one["head"]["ref"] for one in alice.pulls()]
        assert "Blue." in alice.read("turn1", head)
        assert "USER" not in {kind for kind, _ in messages(town, first)}


def test_words_that_the_agent_did_not_read_on_its_bus_are_for_its_next_turn(town):
    pipe = town.root / "pipe"
    os.mkfifo(pipe)
    agent(
        town,
        "n = len(list(pathlib.Path('.').glob('turn*')))\n"
        "pathlib.Path(f'turn{n}').write_text(sys.stdin.read())\n"
        f"if n == 0:\n    {ASKS}    open({str(pipe)!r}).read()\n" + FINISHES,
    )
    alice = town.person(ALICE)
    with town.service() as service:
        number = alice.file("Paint it", "agent:small-job")
        service.poll()
        task = service.task(number, TaskState.RUNNING)
        service.until(lambda: asked(alice, number))
        alice.say(number, "Blue.")
        service.poll()
        service.until(lambda: ("USER", "Blue.") in messages(town, task))
        pipe.write_text("go")
        service.until(lambda: service.task(number).turn == 2)
        service.rested()
        assert len(service.runs(task)) == 2
        (head,) = [one["head"]["ref"] for one in alice.pulls()]
        assert "Blue." in alice.read("turn1", head)


def test_a_question_that_was_asked_while_no_service_was_there_is_carried_at_the_next_start(town):
    pipe = town.root / "pipe"
    os.mkfifo(pipe)
    agent(town, f"open({str(pipe)!r}).read()\n{ASKS}{FINISHES}")
    alice = town.person(ALICE)
    with town.service() as service:
        number = alice.file("Paint it", "agent:small-job")
        service.poll()
        task = service.task(number, TaskState.RUNNING)
        service.until(lambda: service.runs(task)[0].state == "running")
        service.runner.leave()
        service.thread.join(60)
        pipe.write_text("go")
        run = service.runs(task)[0]
    with (town.home / run.folder / "run.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # its shim holds it as long as it lives
    for _ in range(2):
        with town.service() as service:
            service.task(number, TaskState.AWAITING_FEEDBACK)
            service.rested()
            assert len(asked(alice, number)) == 1
