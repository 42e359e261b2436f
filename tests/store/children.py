"""Real processes for tests: forked from a server that has everything imported already."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from loaded_children import CONTEXT

# A child that never answers must fail the test, not hang it.
PATIENCE = 60.0


class Child:
    """One process, and a pipe to it."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=work, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def hear(self) -> Any:
        """What the child says next."""
        if not self.pipe.poll(PATIENCE):
            raise TimeoutError("the child says nothing")
        return self.pipe.recv()

    def tell(self, word: Any = "go") -> None:
        self.pipe.send(word)

    def everything_heard(self) -> list[Any]:
        """What the child said up to its end."""
        heard = []
        try:
            while True:
                heard.append(self.hear())
        except EOFError:
            return heard

    def kill(self) -> None:
        """End it as a power cut of the process would."""
        self.process.kill()
        self.join()

    def join(self) -> int:
        self.process.join(PATIENCE)
        assert self.process.exitcode is not None, "the child does not end"
        return self.process.exitcode


Pipe = Connection
