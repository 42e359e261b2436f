"""Random streams on a host that is late and askew, and a service that is killed at any statement.

What is handled is what the host's own history demands, and no effect happens twice
(docs/internals/polling.md, "Streams").
"""

from __future__ import annotations

from collections import Counter

import pytest
from streams_campaign import campaign
from streams_script import LONG, PEOPLE, SHARES, US

# Shares of the streams: the first in every run, the second in CI, the others in `make soak`.
PARTS, EACH = 8, 10
SOAK, FIRST = 10_000, 1_000_000


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "part",
    [
        0,
        pytest.param(1, marks=pytest.mark.long),
        *(pytest.param(part, marks=pytest.mark.soak) for part in range(2, PARTS)),
    ],
)
def test_what_is_handled_is_what_happened(part):
    report = campaign(range(part * EACH, (part + 1) * EACH))
    assert not report.failures, "\n\n".join(report.failures)
    assert report.tally["killed"] > EACH / 4
    assert set(report.tally) >= {f"{plan} streams" for plan in SHARES}


@pytest.mark.soak
def test_ten_thousand_long_streams():
    tally: Counter[str] = Counter()
    for start in range(FIRST, FIRST + SOAK, 250):
        report = campaign(range(start, start + 250), longest=LONG)
        assert not report.failures, "\n\n".join(report.failures)
        tally += report.tally
    assert tally["killed"] > SOAK
    # Everything that can happen has happened.
    assert set(tally) >= {*PEOPLE, *US}
