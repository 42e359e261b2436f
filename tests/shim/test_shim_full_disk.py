"""A disk that is full, made of a small tmpfs in a mount namespace of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

from shim_fixture import PATIENCE, ShimRuns, python

from hostler.shim import command
from missing_tools import skip_without


@cache
def can_mount() -> bool:
    try:
        probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
        return subprocess.run(probe, capture_output=True, timeout=PATIENCE).returncode == 0
    except OSError:
        return False


# Runs in the namespace: mount, start the shim, say go, and print what is found in the end.
SCENE = """
import json, os, subprocess, sys
place, argv, spec, before = sys.argv[1], *map(json.loads, sys.argv[2:5])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], check=True)
folder = place + "/run"
os.mkdir(folder)
with open(folder + "/spec.json", "w") as file:
    json.dump(spec, file)

def fill(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass

if before:
    fill(place + "/filler")
done = subprocess.run(argv + [folder], input=b"g", capture_output=True)
free = os.statvfs(place).f_bavail
word = open(folder + "/exit.json").read() if os.path.exists(folder + "/exit.json") else "null"
names = sorted(os.listdir(folder))
print(json.dumps([done.returncode, done.stderr.decode(), free, json.loads(word), names]))
"""

FILL_AND_FAIL = """
try:
    while True:
        os.write(1, bytes(512))
except OSError as error:
    sys.exit(error.errno)
"""


def play(shim_runs: ShimRuns, code: str, *, full_before: bool):
    if not can_mount():
        skip_without("root", "neither root nor user namespaces may mount a tmpfs here")
    place = shim_runs.folder / "disk"
    place.mkdir()
    spec = {"run": "r1", "argv": python(code), "cwd": "/", "env": shim_runs.environment()}
    scene = [sys.executable, "-c", SCENE, str(place), *map(json.dumps, (command("")[:-1], spec))]
    done = subprocess.run(
        ["unshare", "-rm", *scene, json.dumps(full_before)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_last_word_is_said_on_a_disk_that_the_agent_has_filled(shim_runs: ShimRuns):
    code, complaint, free, word, names = play(shim_runs, FILL_AND_FAIL, full_before=False)
    assert (code, complaint) == (0, "")
    assert free <= 4, "the disk was really full: only what exit.json did not need came back"
    assert (word["ended_by"], word["exit_code"]) == ("exit", 28)
    assert word["stdout_bytes"] > 100_000
    assert names == ["exit.json", "run.lock", "shim.json", "spec.json", "stderr", "stdout"]


def test_no_agent_is_started_on_a_disk_that_is_full_already(shim_runs: ShimRuns):
    code, complaint, _, word, names = play(shim_runs, "tell('never')", full_before=True)
    assert code == 6
    assert "No space left" in complaint
    assert word is None
    assert names == ["run.lock", "spec.json"]
