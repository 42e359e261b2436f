"""A code host in memory, for tests of other rooms: the same port, the same contract tests."""

from hostler.forge.stub.port import Fault, Stub

__all__ = ["Fault", "Stub"]
