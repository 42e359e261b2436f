"""Children forked off a process that has everything loaded.

A process has one such server, whose list is the one that was set last: so it is said here, once.
"""

from __future__ import annotations

import multiprocessing

# Fork alone would copy the test's own threads' locks; spawning imports everything every time.
CONTEXT = multiprocessing.get_context("forkserver")
# The server does not know the folders of the tests: it can load only what is installed.
CONTEXT.set_forkserver_preload(
    [
        "pytest",
        "hypothesis.stateful",
        "hostler.bus",
        "hostler.forge",
        "hostler.forge.feeds",
        "hostler.forge.outbox",
        "hostler.governor",
        "hostler.runs",
        "hostler.sandbox.server",
        "hostler.store.migrate",
    ]
)
