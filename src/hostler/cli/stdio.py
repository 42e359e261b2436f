"""Standard output that is closed, full, or read by a program that exits early."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# The exit code that shells report for a program killed by SIGPIPE.
EXIT_BROKEN_PIPE = 141


@contextmanager
def guard_output() -> Iterator[None]:
    """Flush the block's output; exit with a clear message or code if it cannot be written."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the calling process
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
        sys.exit(EXIT_BROKEN_PIPE)
    except OSError as error:
        if error.filename is not None:
            raise
        _discard_stdout()
        sys.stderr.write(f"error: Cannot write the output: {error.strerror}.\n")
        sys.exit(1)


def _discard_stdout() -> None:
    """Discard buffered output, so that Python does not fail again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
