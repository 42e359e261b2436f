"""The agent of these tests: tells who it is, waits for orders, and proves that it is alone.

argv: the place of the test, then what to do: `wait` for orders, `quick`, or `walled`.
"""

import fcntl
import json
import os
import signal
import sys
from pathlib import Path

place, how = sys.argv[1:3]
run = os.environ["HOSTLER_RUN"]


def append(*words):
    log = os.open(f"{place}/lives", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(log, (" ".join(map(str, words)) + "\n").encode())
    os.close(log)


def tell(*words):
    pipe = os.open(f"{place}/events", os.O_WRONLY)
    os.write(pipe, (" ".join(map(str, words)) + "\n").encode())
    os.close(pipe)


def say(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def result(status):
    path = Path(os.environ["HOSTLER_RESULT"])
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"status": status, "summary": "Mended.", "question": "Which?"}))
    part.replace(path)


def order():
    pipe = os.open(f"{place}/orders", os.O_RDONLY)
    word = b""
    while not word.endswith(b"\n"):
        word += os.read(pipe, 1)
    os.close(pipe)
    return word.decode().split()


def alone():
    """Held by us and by all that we fork, until the last of them is gone."""
    lock = os.open(f"{place}/alive.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        append("overlap", run)


def stray():
    """Leave a child in another session that does not hear SIGTERM."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        tell("stray", os.getpid())
        while True:
            signal.pause()


def obey():
    while True:
        word, *rest = order()
        if word == "say":
            say(type="usage", input_tokens=int(rest[0]))
            tell("said")
        elif word == "stray":
            stray()
        elif word == "exit":
            sys.exit(int(rest[0]))
        else:
            result(word)
            return


alone()
append("begin", run, os.getpid())
say(type="session", id="s1")
say(type="usage", input_tokens=7)
say(type="cost", usd=0.5)
if how == "wait":
    tell("here", os.getpid())
    obey()
elif how == "quick":
    result("done")
elif how == "walled":
    say(type="limit", reason="quota", status=429, resets_at="2100-01-01T00:00:00.000Z")
    sys.exit(1)
say(type="result", ok=True)
append("end", run)
