"""Standard output that is closed, full, or read by a program that exits early."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# As a shell reports a program that was ended by SIGPIPE.
EXIT_BROKEN_PIPE = 141


@contextmanager
def guard_output() -> Iterator[None]:
    """Everything that the block says is out when it ends; a clear end where that cannot be."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
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
        sys.stderr.write(f"error: The output could not be written: {error.strerror}.\n")
        sys.exit(1)


def _discard_stdout() -> None:
    """Let what is still buffered go nowhere, or Python would complain once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
