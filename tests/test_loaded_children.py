"""The server from which children are forked is safe to fork."""

from __future__ import annotations

import os
from pathlib import Path

from loaded_children import CONTEXT


def count_threads_of_parent(pipe):
    pipe.send(len(list(Path(f"/proc/{os.getppid()}/task").iterdir())))


def test_children_are_forked_from_a_process_with_one_thread():
    ours, theirs = CONTEXT.Pipe()
    child = CONTEXT.Process(target=count_threads_of_parent, args=(theirs,))
    child.start()
    assert ours.poll(60) and ours.recv() == 1
    child.join()
