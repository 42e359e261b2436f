"""Since when a gate is closed: the newest of those that it counted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hostler.governor.gates import Gate, LeaseDenied
from hostler.governor.holders import HostView
from hostler.governor.leases import closed_since
from hostler.model import EPOCH, format_timestamp
from hostler.store.governor import Holder, Lease

HERE = HostView(Holder("yard", "boot", "space", 1, 10), 1, lambda _: True)
NOW = EPOCH + timedelta(days=20_000)


def lease(name, hours, pool="p", project="barn", boot="boot", released=False):
    at = format_timestamp(NOW - timedelta(hours=hours)) if hours is not None else "garbage"
    holder = Holder("yard", boot, "space", 2, 20)
    return Lease(name, pool, project, holder, at, at, released=released)


LEASES = [
    lease("a", 9),
    lease("b", 8, pool="other"),
    lease("c", 7, project="shed"),
    lease("d", 6, pool="other", project="shed", boot="elsewhere"),
    lease("e", 1, released=True),
]


@pytest.mark.parametrize(
    ("gate", "hours"),
    [(Gate.CAP, 7), (Gate.WIDTH, 8), (Gate.SHARE, 8), (Gate.MACHINE, 7), (Gate.MEMORY, None)],
)
def test_the_newest_that_a_gate_has_counted_closed_it(gate, hours):
    denied = LeaseDenied(gate, "p", "barn", "what", "remedy")
    found = closed_since(denied, LEASES, HERE, NOW)
    assert found == (NOW - timedelta(hours=hours) if hours else None)


def test_what_cannot_be_read_tells_nothing_and_nothing_is_in_the_future():
    denied = LeaseDenied(Gate.CAP, "p", "barn", "what", "remedy")
    assert closed_since(denied, [lease("x", None)], HERE, NOW) is None
    assert closed_since(denied, [], HERE, NOW) is None
    assert closed_since(denied, [lease("x", -5)], HERE, NOW) == NOW
