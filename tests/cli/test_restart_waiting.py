"""`hostler service restart --wait`, and who is there to carry it out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from intake_yard import migrated
from typer.testing import CliRunner

from hostler.cli.commands import service_admin
from hostler.cli.main import app
from hostler.clock import SystemClock
from hostler.errors import HostlerError
from hostler.service.context import ONE_POLL_PURPOSE, SERVICE_PURPOSE
from hostler.store import Store, open_store
from hostler.store.engine.locks import HomeLock
from hostler.workflows.commands import RESTART_SCOPES, current_restart, finish_restart


@pytest.fixture
def place(home: Path, monkeypatch) -> Path:
    home.mkdir()
    (home / "hostler.db").write_bytes(migrated())
    monkeypatch.setattr(service_admin, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(service_admin, "MAX_GONE_SECONDS", 0.0)
    return home


@contextmanager
def service(home: Path, then: Callable[[Store, HomeLock], None]) -> Iterator[None]:
    """Somebody who holds the lock until a restart is asked for, and then does this."""
    lock = HomeLock.take(home, SystemClock(), SERVICE_PURPOSE)

    def wait() -> None:
        with closing(open_store(home)) as store:
            mark = store.change_mark()
            while not _asked(store):
                mark = store.wait_for_change(mark)
            then(store, lock)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        lock.release()


def _asked(store: Store) -> bool:
    with store.read() as tx:
        return current_restart(tx) is not None


def restart(home: Path, *words: str):
    return CliRunner().invoke(app, ["--home", str(home), "service", "restart", *words])


def refused(said) -> HostlerError:
    assert said.exit_code == 1 and isinstance(said.exception, HostlerError), said.output
    return said.exception


@pytest.mark.parametrize(("done", "code"), [(True, 0), (False, 1)])
def test_whoever_waits_hears_the_end(place, done, code):
    def finish(store: Store, _lock: HomeLock) -> None:
        with store.write(*RESTART_SCOPES) as tx:
            finish_restart(tx, done, "So it is.")

    with service(place, finish):
        said = restart(place, "--wait")
    assert said.exit_code == code and "So it is." in said.output


def test_whoever_waits_for_a_service_that_is_gone_is_told(place):
    with service(place, lambda _store, lock: lock.release()):
        error = refused(restart(place, "--wait"))
    assert "exited before it restarted" in error.what and "request is kept" in error.safe


def test_a_service_that_looks_once_cannot_be_asked(place):
    lock = HomeLock.take(place, SystemClock(), ONE_POLL_PURPOSE)
    error = refused(restart(place))
    assert "service --once" in error.what and "cannot be restarted" in error.what
    with closing(open_store(place)) as store:
        assert not _asked(store)
    lock.release()


def test_nobody_cannot_be_asked(place):
    assert "service is not running" in refused(restart(place, "--wait")).what
