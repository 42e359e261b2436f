"""The agent of the campaign: does what its issue's title says, and leaves stamps of its life.

argv: the place of the campaign, how many agents may live at once, and how many in one repository.
While it lives it holds one of so many locks, and so does all that it starts; the kernel gives
them back, however it ends. Whoever finds no lock free is one too many.
"""

import fcntl
import json
import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

place, together, in_one = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
run, task, project = (os.environ[f"HOSTLER_{name}"] for name in ("RUN", "TASK", "PROJECT"))
context = json.loads(Path(os.environ["HOSTLER_CONTEXT"]).read_text())
number = context["issue"]["number"]
kind = context["issue"]["title"].split()[-1]
notes = Path("notes") / f"{number}.md"


def append(file, text):
    """One line, whole or not at all."""
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(log, (text + "\n").encode())
    os.close(log)


def stamp(word, **more):
    life = {"word": word, "run": run, "task": task, "project": project, "pid": os.getpid()}
    append(place / "stamps", json.dumps({**life, **more}))


def take(name, count):
    """Hold one of so many locks for life, and say which; nobody else looks meanwhile."""
    mutex = os.open(place / "locks" / f"{name}.mutex", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(mutex, fcntl.LOCK_EX)
    try:
        for slot in range(count):
            lock = os.open(place / "locks" / f"{name}.{slot}", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return slot
            except BlockingIOError:
                os.close(lock)
        stamp("too many", what=name)
        return count
    finally:
        os.close(mutex)


def live():
    """Be counted, and say what was heard."""
    signal.signal(signal.SIGTERM, asked_to_leave)
    mine = os.open(place / "alive" / run, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(mine, fcntl.LOCK_EX)
    slot = take("all", together)
    take(f"in-{project}", in_one)
    take(f"task-{task}", 1)
    heard = [[one["id"], one["author"], one["body"]] for one in context["comments"]]
    stamp("begin", number=number, flow=context["flow"], slot=slot, heard=heard)
    append(place / "environs", json.dumps(dict(os.environ)))


def asked_to_leave(_number, _frame):
    stamp("term")
    os._exit(143)


def note(word):
    notes.parent.mkdir(exist_ok=True)
    append(notes, f"{word} {run}")


def commit(message):
    for words in (["add", str(notes)], ["commit", "--quiet", "--message", message]):
        subprocess.run(["git", *words], check=True)


def leave_a_child():
    """In another session, and deaf to SIGTERM."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()


def say(**words):
    result = Path(os.environ["HOSTLER_RESULT"])
    part = result.with_suffix(".part")
    part.write_text(json.dumps(words))
    part.replace(result)


def finish():
    replies = [
        {"comment_id": one["id"], "body": f"Done: {one['body']}"} for one in context["comments"]
    ]
    note("end")
    title = context["issue"]["title"]
    say(status="done", pr_title=title, commit_message=f"End {run}", replies=replies)


def hang():
    stamp("hang")
    while True:
        signal.pause()


def work():
    """The title's last word says how; a person's word frees those that would not end well."""
    freed = (place / "freed" / f"{project}-{number}").exists()
    if kind == "hangs" and not freed:
        hang()
    if kind == "dies" or (kind == "fails" and os.environ["HOSTLER_ATTEMPT"] == "1"):
        sys.exit(1)
    feedback = context["flow"] == "feedback"
    if (kind == "blocks" or (kind == "balks" and feedback)) and not freed:
        say(status="blocked", summary=f"There is no road to {number}.")
    elif kind == "asks" and not feedback and not context["comments"]:
        say(status="needs_input", question=f"Which way to {number}?")
    else:
        finish()


live()
# Writing anything would be progress, of which one that dies makes none.
if kind != "dies":
    note("begin")
if kind == "commits":
    commit(f"Begin {run}")
if kind == "forks":
    leave_a_child()
print("at work", flush=True)
# Long enough for others to be at work beside it, and to be struck.
select.select([], [], [], random.Random(run).uniform(0.1, 1.0))
work()
stamp("end")
