"""Files that others cut short or put in place of ours: nothing is written or read amiss."""

from __future__ import annotations

import os

from bus_fixture import AGENT, INFO, bodies, line, plain_messages

from hostler.bus.bus import Bus


def test_a_file_of_the_same_size_in_place_of_ours_is_looked_at_anew(path):
    """Ids must grow in file order, also behind lines that were put there meanwhile."""
    bus = Bus(path)
    first = bus.post(INFO, "one", AGENT)
    other = path.with_name("other")
    later = first.id[:-6] + "999999"
    other.write_bytes(line(later, "one"))
    assert other.stat().st_size == path.stat().st_size
    other.replace(path)
    second = bus.post(INFO, "three", AGENT)
    assert second.id > later
    assert bodies(plain_messages(path)) == ["one", "three"]


def test_whoever_follows_a_file_that_was_cut_short_hears_what_comes_then(path):
    bus = Bus(path)
    bus.post(INFO, "one", AGENT)
    bus.post(INFO, "two" * 1000, AGENT)
    follower = bus.follower("")
    assert bodies(follower.new()) == ["one", "two" * 1000]
    os.truncate(path, len(path.read_bytes().splitlines(keepends=True)[0]))
    # Shorter than what was cut: whoever reads on from the old place hears nothing.
    bus.post(INFO, "three", AGENT)
    assert bodies(follower.new()) == ["three"]
    follower.close()
