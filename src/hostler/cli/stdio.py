"""Standard output that may be closed, full, or read by somebody who leaves early."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# As a shell reports a program that was ended by SIGPIPE.
READER_LEFT = 141


@contextmanager
def whole_output() -> Iterator[None]:
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
        _mute()
        sys.exit(READER_LEFT)
    except OSError as error:
        if error.filename is not None:
            raise
        _mute()
        sys.stderr.write(f"error: The output could not be written: {error.strerror}.\n")
        sys.exit(1)


def _mute() -> None:
    """Let what is still buffered go nowhere, or Python would complain once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
