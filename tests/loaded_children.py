"""Children forked from a server process that has everything imported.

A test process has one such server with one list of imports, so both are set here. It is started
before the first test: later it would inherit the environment and folder of the test that happened
to need it first. It has one thread (`test_loaded_children.py`).
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import forkserver

# Forking the test process would copy locks of its threads; spawning imports everything again.
CONTEXT = multiprocessing.get_context("forkserver")
# The server cannot import from the folders of the tests, only what is installed.
CONTEXT.set_forkserver_preload(
    [
        "pytest",
        "hypothesis.stateful",
        "hostler.bus",
        "hostler.forge",
        "hostler.forge.github.polling",
        "hostler.forge.outbox",
        "hostler.governor",
        "hostler.runs",
        "hostler.sandbox.server",
        "hostler.store.admin.migrate",
    ]
)


def start_server() -> None:
    """Start the server; called once the tests are collected, before the first one runs."""
    forkserver.ensure_running()
