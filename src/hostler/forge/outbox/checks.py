"""What `hostler doctor` asks of the outbox: what was given up, and what waits for long."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta

from hostler.health import Context, Finding, Status, check
from hostler.model import parse_stamp, stamp
from hostler.store.outbox import Failure, StandingWrites, standing_writes

NAME = "outbox"
# How long a failure is told of.
RECENT = timedelta(days=7)
# A write that is not through after this waits for something that a person should know of.
SLOW = timedelta(minutes=15)
SHOWN = 3


@check(NAME)
def writes_go_out(context: Context) -> Iterator[Finding]:
    """Was a write to GitHub given up, or does one wait for long?"""
    found = _look(context)
    if found is None:
        yield Finding(NAME, Status.SKIPPED, "settings or database cannot be read")
        return
    now, writes = found
    slow = writes.oldest is not None and now - parse_stamp(writes.oldest) > SLOW
    if writes.failed:
        told = "; ".join(map(_told, writes.newest))
        evidence = f"{writes.failed} write(s) given up in the last {RECENT.days} days: {told}"
        remedy = "Mend the cause; then do by hand what is missing there."
        yield Finding(NAME, Status.WARNING, evidence, remedy)
    if slow:
        evidence = f"{writes.waiting} write(s) wait, the oldest since {writes.oldest}"
        remedy = "Is a service running, and does GitHub answer? See `hostler status` and the log."
        yield Finding(NAME, Status.WARNING, evidence, remedy)
    if not writes.failed and not slow:
        yield Finding(NAME, Status.OK, f"{writes.waiting} write(s) on the way, none given up")


def _told(failure: Failure) -> str:
    where = f"{failure.repo_full_name}#{failure.scope_number}"
    return f"{failure.kind} on {where}: {failure.why.rstrip('.') or 'no reason is known'}"


def _look(context: Context) -> tuple[datetime, StandingWrites] | None:
    from hostler.config.load import load
    from hostler.errors import ConfigError, StoreError
    from hostler.store.engine.backend import URL_VARIABLE
    from hostler.store.store import open_store

    try:
        settings = load(context.home, context.config_path).settings
        url = os.environ.get(URL_VARIABLE) or settings.runtime.database_url or None
        store = open_store(context.home, url, clock=context.clock)
    except (ConfigError, StoreError):
        return None
    try:
        with store.read() as tx:
            now = tx.now()
            return now, standing_writes(tx, stamp(now - RECENT), SHOWN)
    finally:
        store.close()
