"""The agent of the tests that kill: proves that it is alone, and leaves traces of its life.

argv: the place of the test. `begin <run>` (committed by itself) and `end <run>` (left for the
service to commit) go to a file of the repository and, the same, to one outside.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

place = Path(sys.argv[1])
run = os.environ["HOSTLER_RUN"]


def append(file, *words):
    """One line, whole or not at all."""
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(log, (" ".join(map(str, words)) + "\n").encode())
    os.close(log)


def live(word):
    append(place / "lives", word, run)
    append("work.log", word, run)


def tell(word):
    append(place / "events", word, os.getpid())


def alone():
    """Held by us and by all that we start, until the last of them is gone."""
    lock = os.open(place / "alive.lock", os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(lock, True)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        append(place / "overlaps", run)


def pass_gate(name):
    """Wait while the test holds it."""
    gate = os.open(place / name, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(gate, fcntl.LOCK_SH)
    os.close(gate)


def leave_a_child():
    """In another session, and deaf to SIGTERM."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        tell("child")
        while True:
            signal.pause()


def commit(message):
    for words in (["add", "work.log"], ["commit", "--quiet", "--message", message]):
        subprocess.run(["git", *words], check=True, close_fds=False)


def say_result():
    context = json.loads(Path(os.environ["HOSTLER_CONTEXT"]).read_text())
    replies = [
        {"comment_id": comment["id"], "body": f"Done: {comment['body']}"}
        for comment in context["comments"]
    ]
    result = Path(os.environ["HOSTLER_RESULT"])
    words = {"status": "done", "pr_title": "Add work", "commit_message": f"End {run}"}
    part = result.with_suffix(".part")
    part.write_text(json.dumps({**words, "replies": replies}))
    part.replace(result)


alone()
print("at work", flush=True)
live("begin")
commit(f"Begin {run}")
leave_a_child()
tell("here")
pass_gate("gate")
live("end")
say_result()
tell("said")
pass_gate("exit")
