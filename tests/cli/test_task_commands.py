"""`hostler task …`, as a person and a script use it, on real processes."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from task_program import Home, let_go, on_terminal

from hostler.text import display_width

DONE = "print('hello'); done()"
ASK = "ask('Which colour?')"
ASK_BY_COMMAND = "hostler('ask', 'Which colour?')"
FAIL = "print('no'); sys.exit(3)"


@pytest.fixture
def stead(tmp_path: Path, environment: dict[str, str], agent_commands: Path) -> Iterator[Home]:
    path = f"{agent_commands}:{environment['PATH']}"
    made = Home(tmp_path, {**environment, "PATH": path})
    yield made
    made.clean()


# -- submit ---------------------------------------------------------------------------------


def test_submit_prints_the_id_alone_and_says_that_nobody_works(stead):
    said = stead.call("task", "submit", "Tidy up the imports")
    assert said.returncode == 0
    (task,) = stead.tasks()
    assert said.stdout == f"{task.id}\n"
    assert "Queued, position 1." in said.stderr
    assert "The service is not running" in said.stderr and "--foreground" in said.stderr
    assert (task.project, task.cwd, task.title) == ("yard", str(stead.yard), "Tidy up the imports")
    assert (stead.folder(task.id) / "TASK.md").read_text() == "Tidy up the imports\n"


def test_the_prompt_comes_as_text_file_or_standard_input(stead):
    (stead.yard / "job.md").write_text("# From a file\n\nMore.\n")
    stead.ok("task", "submit", "--file", "job.md")
    stead.ok("task", "submit", "-", stdin="From a pipe\n")
    stead.ok("task", "submit", stdin="Unasked\n")
    assert [task.prompt for task in stead.tasks()] == [
        "# From a file\n\nMore.",
        "From a pipe",
        "Unasked",
    ]
    assert stead.tasks()[0].title == "From a file"


def test_json_says_where_it_stands(stead):
    first = stead.json("task", "submit", "One")
    second = stead.json("task", "submit", "Two", "--depends-on", first["id"])
    assert (first["status"], first["queue_position"], first["service"]) == ("queued", 1, None)
    assert second["depends_on"] == [first["id"]]
    assert second["blockers"][0]["standing"] == "queued"


def test_options_are_stored(stead):
    words = ["--title", "Short", "--project", "other", "--env", "A", "--env", "B"]
    words += ["--wall-limit-minutes", "7", "--max-restarts", "2", "--agent", "helper"]
    task = stead.task(stead.submit("Long", *words, "--cwd", stead.root))
    assert (task.title, task.project, task.cwd) == ("Short", "other", str(stead.root))
    assert (task.env, task.wall_limit_minutes, task.max_restarts) == (("A", "B"), 7, 2)


BAD = [
    (["x", "--file", "y"], "not both"),
    ([""], "empty"),
    (["-"], "empty"),
    (["--file", "missing.md"], "Cannot read"),
    (["--file", "."], "Cannot read"),
    (["x", "--cwd", "nowhere"], "There is no folder"),
    (["x", "--cwd", ".", "--repo", "a/b"], "one of them"),
    (["x", "--repo", "a/b"], "no repository"),
    (["x", "--agent", "nobody"], "There are: helper"),
    (["x", "--project", "../x"], "cannot be the name"),
    (["x", "--depends-on", "nobody"], "There is no task"),
    (["x", "--depends-on", "#12"], "its repository is not named"),
    (["x", "--depends-on", "a b"], "cannot be a dependency"),
    (["x", "--env", "A=1"], "name of a variable"),
    (["x", "--env", "GITHUB_TOKEN"], "secret"),
    (["x", "--wall-limit-minutes", "0"], "--wall-limit-minutes"),
    (["x", "--wall-limit-minutes", "long"], "--wall-limit-minutes"),
    (["x", "--max-restarts", "-1"], "--max-restarts"),
    (["x", "--title", "t" * 121], "120"),
    (["x", "y"], "unexpected extra argument"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=lambda one: str(one)[:40])
def test_bad_orders_get_one_clear_message_and_queue_nothing(stead, words, message):
    stead.ok("pause")
    said = stead.call("task", "submit", *words)
    assert said.returncode in {1, 2}
    assert message in said.stderr and "Traceback" not in said.stderr
    assert stead.tasks() == []


def test_a_folder_without_a_usable_name_asks_for_a_project(stead):
    odd = stead.root / "my things"
    odd.mkdir()
    said = stead.call("task", "submit", "x", cwd=odd)
    assert (said.returncode, "--project" in said.stderr) == (2, True)
    assert stead.call("task", "submit", "x", "--project", "things", cwd=odd).returncode == 0


def test_several_agents_need_a_name(stead):
    stead.configure('[agent.second]\nkind = "command"\ncommand = ["true"]\n')
    said = stead.call("task", "submit", "x")
    assert "Name one with --agent: helper, second" in said.stderr
    stead.configure()
    (stead.home / "hostler.toml").write_text("")
    assert "name no agent" in stead.call("task", "submit", "x").stderr


def test_inside_a_run_a_file_of_the_checkout_says_nothing(stead):
    (stead.yard / "hostler.toml").write_text("this is no settings file")
    parent = stead.submit("Top", cwd=stead.root)
    inside = {"HOSTLER_RUN": "r", "HOSTLER_TASK": parent, "HOSTLER_PROJECT": "root"}
    child = stead.ok("task", "submit", "Child", **inside).strip()
    assert stead.task(child).parent_task == parent
    assert stead.task(child).author == f"the agent of {parent}"
    elsewhere = {**inside, "HOSTLER_CONFIG": str(stead.yard / "hostler.toml")}
    assert stead.call("task", "submit", "Child", **elsewhere).returncode == 2


def test_an_agent_finds_the_settings_of_its_service(stead):
    other = stead.root / "other.toml"
    (stead.home / "hostler.toml").rename(other)
    (stead.yard / "hostler.toml").write_text("this is no settings file")
    service = stead.start("--config", str(other), "service")
    stead.heard(service, "Watching")
    prompt = "made = hostler('task', 'submit', 'done()'); tell('made', made.stderr); done()"
    parent = stead.submit(prompt, cwd=stead.root, HOSTLER_CONFIG=str(other))
    task = stead.task(parent)
    assert (task.project, task.cwd) == (stead.root.name, str(stead.root))
    stead.reach(parent, "done")
    stead.until(lambda: [t.state for t in stead.tasks()] == ["done"] * 2)
    assert stead.tasks()[1].parent_task == parent
    stead.end(service)


def test_status_knows_a_home_that_is_held_for_one_task_alone(stead):
    stead.ok("pause")
    stead.ok("unpause")
    pipe = stead.pipe("held")
    prompt = f"tell('begun'); hold({str(pipe)!r}); done()"
    alone = stead.start("task", "submit", "--foreground", prompt)
    stead.told("begun")
    assert "starts no other tasks" in stead.call("task", "submit", "x").stderr
    seen = stead.json("status")["service"]
    assert (seen["pid"], seen["takes_tasks"]) == (alone.pid, False)
    assert "uses this home" in stead.ok("status")
    let_go(pipe)
    assert alone.wait(60) == 0
    assert [task.state for task in stead.tasks()] == ["done", "queued"]


# -- foreground -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "words", "code", "said"),
    [
        (DONE, [], 0, "task: done"),
        (ASK_BY_COMMAND, [], 3, "needs answer. Which colour?"),
        (FAIL, ["--max-restarts", "1"], 1, "task: failed"),
    ],
    ids=["done", "asks", "fails"],
)
def test_in_the_foreground_it_is_done_here(stead, prompt, words, code, said):
    done = stead.call("task", "submit", "--foreground", *words, prompt)
    assert done.returncode == code, done.stderr
    (task,) = stead.tasks()
    first, last = done.stdout.splitlines()
    assert first == task.id and said in last
    assert "running" in done.stderr


def test_in_the_foreground_with_a_service_at_work_that_one_takes_it(stead):
    service = stead.start()
    done = stead.call("task", "submit", "--foreground", "--json", DONE)
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "done")
    assert f"pid {service.pid}" in done.stderr
    stead.end(service)


def test_in_the_foreground_what_can_never_start_is_said(stead):
    failed = stead.submit(FAIL, "--max-restarts", "1")
    stead.call("task", "stop", failed)
    done = stead.call("task", "submit", "--foreground", "--depends-on", failed, DONE)
    assert done.returncode == 3
    assert f"hostler task retry {failed}" in done.stderr


def test_children_of_a_task_in_the_foreground_are_done_too(stead):
    child = "tell('child'); done()"
    made = stead.call(
        "task", "submit", "--foreground", f"hostler('task', 'submit', '--wait', {child!r}); done()"
    )
    assert made.returncode == 0, made.stderr
    assert stead.told("child") == ""
    parent, below = stead.tasks()
    assert (parent.state, below.state, below.parent_task) == ("done", "done", parent.id)


def test_in_the_foreground_what_nobody_works_on_is_said_and_not_waited_for(stead):
    other = stead.submit(DONE)
    done = stead.call("task", "submit", "--foreground", "--depends-on", other, DONE)
    assert done.returncode == 3, done.stderr
    mine = done.stdout.splitlines()[0]
    assert f"{mine} waits for {other}, and nobody works on that: {other} is queued." in done.stderr
    assert "hostler service" in done.stderr
    assert [task.state for task in stead.tasks()] == ["queued", "queued"]


@pytest.mark.parametrize("how", ["depends", "waits"])
def test_in_the_foreground_a_child_that_waits_for_others_ends_it(stead, how):
    other = stead.submit(DONE)
    child = f"hostler('task', 'submit', '--wait', '--depends-on', {other!r}, 'done()')"
    wait = f"hostler('task', 'wait', {other!r})"
    prompt = f"{child if how == 'depends' else wait}; done()"
    left = stead.call("task", "submit", "--foreground", prompt)
    assert left.returncode == 3, left.stderr
    parent = stead.tasks()[1]
    who = stead.tasks()[2] if how == "depends" else parent
    assert f"{who.id} waits for {other}, and nobody works on that" in left.stderr
    # Its agent waits on; whoever comes next does all of it.
    assert parent.state == "running"
    service = stead.start()
    stead.until(lambda: {task.state for task in stead.tasks()} == {"done"})
    assert len(stead.runs(parent.id)) == 1
    stead.end(service)


def test_in_the_foreground_others_that_are_at_work_are_waited_for(stead):
    """Their agents were left by a service; whoever works here next takes them over."""
    pipe = stead.pipe("held")
    service = stead.start()
    other = stead.submit(f"tell('begun'); hold({str(pipe)!r}); done()")
    stead.told("begun")
    stead.end(service)
    mine = stead.start("task", "submit", "--foreground", "--depends-on", other, DONE)
    stead.heard(mine, "Waiting: ")
    let_go(pipe)
    said, _ = mine.communicate(timeout=60)
    assert mine.returncode == 0 and "nobody works" not in said


def test_the_foreground_is_no_place_inside_a_run(stead):
    said = stead.call("task", "submit", "--foreground", "x", HOSTLER_RUN="r")
    assert (said.returncode, "--wait" in said.stderr) == (1, True)


# -- a service ------------------------------------------------------------------------------


def test_a_service_without_repositories_takes_tasks(stead):
    service = stead.start()
    said = stead.call("task", "submit", "--wait", DONE)
    assert said.returncode == 0, said.stderr
    (task,) = stead.tasks()
    assert said.stdout.splitlines()[0] == task.id
    assert "Started." in said.stderr and "No service" not in said.stderr
    assert stead.ok("task", "logs", task.id) == "hello\n"
    shown = stead.json("task", "show", task.id)
    assert (shown["state"], shown["runs"][0]["outcome"]) == ("done", "success")
    assert shown["runs"][0]["folder"].endswith(shown["runs"][0]["run"])
    assert "Stopped." in stead.end(service)


def test_what_a_gate_holds_is_not_said_to_have_started(stead):
    service = stead.start()
    pipes = [stead.pipe(f"held{number}") for number in range(3)]
    first = [stead.submit(f"hold({str(pipe)!r}); done()") for pipe in pipes]
    for task in first:
        stead.reach(task, "running")
    said = stead.call("task", "submit", DONE)
    assert said.returncode == 0
    assert said.stderr == "Queued, position 1: Project yard runs 3 of its 3 agents.\n"
    facts = stead.json("task", "submit", DONE)
    assert (facts["status"], facts["queue_position"], facts["gate"]) == ("queued", 2, "width")
    assert facts["why"] == "Project yard runs 3 of its 3 agents."
    for pipe in pipes:
        let_go(pipe)
    assert stead.call("task", "wait", facts["id"]).returncode == 0
    stead.end(service)


def test_waiting_says_what_they_have_come_to(stead):
    service = stead.start()
    pipe = stead.pipe("held")
    good = stead.submit(DONE)
    asks = stead.submit(ASK)
    bad = stead.submit(FAIL, "--max-restarts", "1")
    held = stead.submit(f"hold({str(pipe)!r}); done()")
    after_bad = stead.submit(DONE, "--depends-on", bad)
    assert stead.call("task", "wait", good).returncode == 0
    said = stead.call("task", "wait", good, asks)
    assert (said.returncode, "needs answer. Which colour?" in said.stdout) == (3, True)
    assert stead.call("task", "wait", asks, bad).returncode == 1
    stuck = stead.call("task", "wait", after_bad)
    assert (stuck.returncode, "Can never start" in stuck.stdout) == (3, True)
    assert stead.call("task", "wait", held, "--timeout", "0").returncode == 75
    first = stead.json("task", "wait", held, good, "--any")
    assert [one["id"] for one in first] == [good]
    let_go(pipe)
    assert stead.call("task", "wait", held).returncode == 0
    stead.end(service)


def test_tail_follows_from_run_to_run_until_the_task_is_at_rest(stead):
    pipe, again = stead.pipe("held"), stead.pipe("again")
    prompt = f"""
n = len(list(pathlib.Path('.').glob('part*')))
pathlib.Path(f'part{{n}}').touch()
print('attempt', n, '\\x1b[31mred', flush=True)
hold({str(pipe)!r} if n == 0 else {str(again)!r})
print('oh', file=sys.stderr, flush=True)
if n: done()
"""
    task = stead.submit(prompt)
    tail = stead.start("task", "tail", task)
    stead.heard(tail, "The service is not running")
    service = stead.start()
    said = stead.heard(tail, "attempt 0")
    assert "\\x1b[31mred" in said and "\x1b[31m" not in said
    let_go(pipe)
    said = stead.heard(tail, "attempt 1")
    assert "stderr: oh" in said and "attempt 2, helper" in said
    let_go(again)
    rest, _ = tail.communicate(timeout=60)
    assert "task: done" in rest and tail.returncode == 0
    stead.end(service)


def test_interrupting_a_tail_ends_nothing_else(stead):
    service, pipe = stead.start(), stead.pipe("held")
    task = stead.submit(f"print('here', flush=True); hold({str(pipe)!r}); done()")
    tail = stead.start("task", "tail", task)
    stead.heard(tail, "here")
    assert "Traceback" not in stead.end(tail, signal.SIGINT)
    assert tail.returncode == 130
    assert stead.task(task).state == "running"
    let_go(pipe)
    stead.reach(task, "done")
    stead.end(service)


def test_logs_of_any_run_from_the_end(stead):
    waiting = stead.submit("x")
    assert "has not run yet" in stead.call("task", "logs", waiting).stderr
    once = ("--foreground", "--max-restarts", "1")
    prompt = "print(*range(50), sep='\\n'); 1 / 0"
    task = stead.call("task", "submit", *once, prompt).stdout.split()[0]
    assert stead.ok("task", "logs", task, "--lines", "2") == "48\n49\n"
    errors = stead.ok("task", "logs", task, "--stderr", "--lines", "1")
    assert errors == "stderr: ZeroDivisionError: division by zero\n"
    run = stead.runs(task)[0].run
    shown = stead.json("task", "logs", task, "--run", run[:20])
    assert (shown["run"], len(shown["lines"])) == (run, 50)
    assert "No run of this task begins" in stead.call("task", "logs", task, "--run", "x").stderr
    assert stead.call("task", "logs", task, "--lines", "0").returncode == 2


def test_streams_of_events_are_told_in_words_as_printed_or_as_events(stead):
    steps = [{"say": "Looking."}, {"tool": {"name": "Bash", "detail": "make"}}, {"cost": 0.5}]
    play = stead.root / "play.json"
    play.write_text(json.dumps({"steps": [*steps, {"mark_done": True}]}))
    settings = f'[agent.player]\nkind = "scripted"\nscript = "{play}"\n'
    (stead.home / "hostler.toml").write_text(settings)
    task = stead.call("task", "submit", "--foreground", "x").stdout.split()[0]
    words = ["Looking.", "-> Bash: make", "cost: 0.5000 USD", "result: success"]
    assert stead.ok("task", "logs", task).splitlines()[-4:] == words
    assert stead.ok("task", "tail", task).splitlines()[-4:] == words
    raw = stead.ok("task", "logs", task, "--raw").splitlines()
    for command in ("logs", "tail"):
        printed = stead.ok("task", command, task, "--json").splitlines()
        events = [json.loads(line) for line in printed]
        assert [one["type"] for one in events][-4:] == ["text", "tool", "cost", "result"]
        assert {one.pop("run") for one in events} == {stead.runs(task)[0].run}
        assert events == [json.loads(line) for line in raw]


# -- what people do with tasks ----------------------------------------------------------------


def test_stop_resume_cancel_and_retry(stead):
    service, pipe = stead.start(), stead.pipe("held")
    prompt = f"""
first = not pathlib.Path('begun').exists()
tell('begun')
if first: hold({str(pipe)!r})
done()
"""
    task = stead.submit(prompt)
    stead.told("begun")
    stopped = stead.json("task", "stop", task, "--why", "wrong\nbranch")
    assert [(one["id"], one["state"]) for one in stopped] == [(task, "stopped")]
    assert stopped[0]["reason"].endswith(": wrong branch")
    stead.until(lambda: not stead.live())
    assert stead.call("task", "stop", task).returncode == 1
    stead.ok("task", "cancel", task)
    refused = stead.call("task", "resume", task)
    assert (refused.returncode, f"hostler task retry {task}" in refused.stderr) == (1, True)
    assert "queued" in stead.ok("task", "retry", task, "--why", "after all")
    stead.reach(task, "done")
    assert [run.outcome for run in stead.runs(task)] == ["interrupted", "success"]
    assert stead.call("task", "resume", task).returncode == 1
    stead.end(service)


def test_a_stop_reaches_an_agent_whose_service_is_gone(stead):
    service, pipe = stead.start(), stead.pipe("held")
    task = stead.submit(f"tell('begun'); hold({str(pipe)!r})")
    stead.told("begun")
    stead.end(service)
    assert stead.agents()
    stead.ok("task", "stop", task)
    stead.until(lambda: not stead.agents(), "the agent's end")
    again = stead.start()
    stead.until(lambda: not stead.live())
    assert stead.task(task).state == "stopped"
    assert [run.outcome for run in stead.runs(task)] == ["interrupted"]
    stead.end(again)


def test_a_question_is_answered(stead):
    prompt = """
text = sys.stdin.read()
done() if 'Bl' + 'ue.' in text else ask('Which colour?')
"""
    asked = stead.call("task", "submit", "--foreground", prompt)
    assert asked.returncode == 3
    task = asked.stdout.split()[0]
    assert stead.call("task", "answer", task, "").returncode == 2
    assert "queued with your answer" in stead.ok("task", "answer", task, "Blue.")
    assert stead.call("task", "answer", task, "Red.").returncode == 1
    shown = stead.ok("task", "show", task)
    assert re.search(r"^  asked +\S+: Which colour\?$", shown, re.M)
    assert re.search(r"^  answered +\S+ by \S+: Blue\.$", shown, re.M)
    service = stead.start()
    stead.reach(task, "done")
    stead.end(service)


def test_a_pause_holds_everything_and_stop_all_stops_it(stead):
    stead.ok("pause", "--why", "lunch")
    assert "already paused" in stead.ok("pause")
    service = stead.start()
    first, second = stead.submit(DONE), stead.submit(DONE)
    held = stead.json("why", first)
    assert (held["gate"], held["waits"]) == ("paused", True)
    assert "lunch" in held["why"]
    refused = stead.call("stop-all")
    assert (refused.returncode, "--yes" in refused.stderr) == (1, True)
    stopped = stead.json("stop-all", "--yes", "--why", "enough")
    assert {one["id"] for one in stopped} == {first, second}
    assert "Resumed." in stead.ok("unpause")
    assert "no pause" in stead.ok("unpause")
    third = stead.submit(DONE)
    stead.reach(third, "done")
    assert stead.task(first).state == "stopped"
    assert "No task is running" in stead.call("stop-all", "--yes").stderr
    stead.end(service)


def test_delete_asks_and_removes_rows_and_folders(stead):
    made = stead.call("task", "submit", "--foreground", DONE)
    task = made.stdout.split()[0]
    # Of another name: a short name means whatever begins with it.
    waiting = stead.submit("Later")
    assert stead.folder(task).is_dir()
    assert "--yes" in stead.call("task", "delete", task).stderr
    refused = stead.call("task", "delete", task, waiting, "--yes")
    assert (refused.returncode, "it is queued" in refused.stderr) == (1, True)
    assert stead.find(task) is not None
    assert stead.json("task", "delete", task, "--yes") == {"deleted": [task], "kept": []}
    assert stead.find(task) is None and stead.runs(task) == []
    assert not stead.folder(task).exists()
    assert stead.call("task", "show", task).returncode == 2


# -- looking ----------------------------------------------------------------------------------


def test_the_list_is_a_tree_of_what_is_unfinished(stead):
    assert "No open tasks." in stead.call("task", "list").stderr
    assert stead.json("task", "list") == []
    top = stead.submit("Top")
    inside = {"HOSTLER_RUN": "r", "HOSTLER_TASK": top, "HOSTLER_PROJECT": "yard"}
    child = stead.ok("task", "submit", "Child", **inside).strip()
    over = stead.submit("Over")
    stead.ok("task", "cancel", over)
    lines = stead.ok("task", "list").splitlines()
    assert len(lines) == 2 and lines[0].startswith("queued") and f"  {top}  Top" in lines[0]
    assert f"    {child}" in lines[1]
    assert [one["id"] for one in stead.json("task", "list", "--all")] == [top, child, over]
    assert [one["id"] for one in stead.json("task", "list", "--state", "stopped")] == [over]
    assert stead.json("task", "list", "--project", "elsewhere") == []
    assert "there is no state" in stead.call("task", "list", "--state", "lazy").stderr


def test_names_may_be_short(stead):
    task = stead.submit("Top")
    assert stead.json("task", "show", task[:15])["id"] == task
    assert stead.json("why", task[:15])["task"] == task
    assert "There is no task" in stead.call("why", "nobody").stderr
    assert "hostler run a/b#1" in stead.call("why", "a/b#1").stderr
    assert stead.call("task", "stop").returncode == 2


def test_why_says_first_that_nobody_works(stead):
    first = stead.submit("One")
    said = stead.ok("why", first).splitlines()
    assert "The service is not running" in said[0]
    assert "It can start" in "".join(said)
    second = stead.submit("Two", "--depends-on", first)
    told = stead.json("why", second)
    assert (told["gate"], told["would_start"]) == ("dependencies", False)
    marks = {one["gate"]: one["mark"] for one in told["gates"]}
    assert (marks["paused"], marks["dependencies"], marks["cap"]) == (
        "passed",
        "holds",
        "not_reached",
    )
    stead.ok("task", "cancel", first)
    text = stead.ok("why", second)
    assert f"hostler task retry {first}" in text
    over = stead.ok("why", first)
    assert "Cancelled by" in over and "No service" not in over


def test_status_shows_what_needs_a_person(stead):
    (stead.home / "hostler.db").unlink()
    empty = stead.ok("status")
    assert "no database yet" in empty
    asked = stead.call("task", "submit", "--foreground", ASK).stdout.split()[0]
    failed = stead.submit("x")
    stuck = stead.submit("y", "--depends-on", failed)
    stead.ok("task", "cancel", failed)
    service, pipe = stead.start(), stead.pipe("held")
    busy = stead.submit(f"tell('begun'); hold({str(pipe)!r})")
    stead.told("begun")
    seen = stead.json("status")
    assert seen["service"]["pid"] == service.pid and seen["service"]["takes_tasks"]
    assert [one["task"] for one in seen["at_work"]] == [busy]
    assert {one["task"] for one in seen["needs_person"]} == {asked, stuck}
    assert seen["tasks"] == {"queued": 1, "running": 1, "needs_input": 1, "stopped": 1}
    assert seen["governor"]["pools"][0]["active"] == 1
    text = stead.ok("status")
    for words in ("running for", busy, "Which colour?", "hostler task answer", "anthropic 1/8"):
        assert words in text
    stead.ok("task", "stop", busy)
    stead.end(service)


# -- terminals --------------------------------------------------------------------------------

PLAIN = re.compile(r"\x1b\[[0-9;]*m")


def test_everything_fits_a_terminal_of_80_columns(stead):
    project = "a-project-with-a-name-that-is-longer-than-usual"
    title = "Überall 整理整頓 the very long title of a task that nobody would ever read to its end"
    first = stead.submit("x", "--project", project, "--title", title)
    second = stead.submit("y " * 300, "--depends-on", first, "--title", f"\x1b[2J{title}")
    environment = {**stead.environment, "HOSTLER_HOME": str(stead.home)}
    for words in (["task", "list"], ["task", "show", second], ["why", second], ["status"]):
        shown = on_terminal(words, environment, stead.yard, 80)
        lines = PLAIN.sub("", shown).split("\r\n")
        assert "\x1b[2J" not in shown
        assert len(lines) <= 24, words
        for line in lines:
            # A name is shown whole where somebody has to copy it, and never cut in the middle.
            whole = any(len(word) > 60 for word in line.split())
            assert display_width(line) <= 80 or whole, line
    listed = PLAIN.sub("", on_terminal(["task", "list"], environment, stead.yard, 80))
    assert all(display_width(line) <= 80 for line in listed.split("\r\n"))
    assert first[:40] in listed


def test_a_person_is_asked_on_a_terminal(stead):
    task = stead.submit("x")
    environment = {**stead.environment, "HOSTLER_HOME": str(stead.home)}
    asked = on_terminal(["stop-all"], environment, stead.yard, typed="n\n")
    assert "Stop 1 task and their agents?" in asked and "Nothing was changed." in asked
    assert stead.task(task).state == "queued"
    on_terminal(["stop-all"], environment, stead.yard, typed="y\n")
    assert stead.task(task).state == "stopped"
    asked = on_terminal(["task", "delete", task], environment, stead.yard, typed="y\n")
    assert f"Deleted {task}." in asked and stead.find(task) is None
