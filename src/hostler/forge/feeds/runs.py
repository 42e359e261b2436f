"""Workflow runs of our own heads: what is new in the list, and one head at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from hostler.forge.feeds.chains import pack, unpack
from hostler.forge.feeds.cursors import Mark, is_same
from hostler.forge.feeds.inbox import Ingested, ingest
from hostler.forge.feeds.surfaces import Drawn, Place, advance, ask, keep, told
from hostler.forge.feeds.tap import Tap
from hostler.forge.payloads import strict
from hostler.forge.port import Item
from hostler.model import parse_stamp
from hostler.store.repositories import find_chain, save_chain

# The list of one head's runs has a chain and no cursor.
HEAD_RUNS = "head_runs"


def draw_runs(tap: Tap, place: Place, heads: Mapping[str, int], *, same_heads: bool) -> Drawn:
    """Read the list of runs, and store those of our heads that are over."""
    with tap.polling(place.surface):
        found = _ask(tap, place, same_heads=same_heads)
        me = tap.forge.myself()
        ours = of_heads(found.reading.items, heads)
        mark = moved(found.mark, found.reading.items, ours)
    if found.reading.items or not is_same(mark, place.cursor):
        with tap.store.write(*tap.scopes) as tx:
            done = [run for run in ours if _is_over(run)]
            found = replace(found, ingested=ingest(tx, tap.repo, me, done, tap.settled))
            advance(tx, tap, place, mark)
            keep(tx, tap, place, found.reading)
    told(tap, found, mark)
    return found


def sweep_runs(tap: Tap, number: int, head: str) -> Ingested:
    """The runs of one head, in case an old one was repeated and nothing said so."""
    with tap.store.read() as tx:
        chain = unpack(find_chain(tx, tap.repo, HEAD_RUNS, number))
    with tap.polling(HEAD_RUNS):
        # An ETag is of one address, and the head is part of it.
        known = tuple(replace(page, anchor="") for page in chain if page.anchor == head)
        reading = tap.forge.runs_of(head, known=known)
        me = tap.forge.myself()
    tap.observe("read", HEAD_RUNS)
    ingested = Ingested()
    if not reading.unchanged:
        ours = of_heads(reading.items, {head: number})
        with tap.store.write(*tap.scopes) as tx:
            ingested = ingest(tx, tap.repo, me, [run for run in ours if _is_over(run)], tap.settled)
            of_head = tuple(replace(page, anchor=head) for page in reading.chain)
            save_chain(tx, tap.repo, HEAD_RUNS, number, pack(of_head))
    tap.observe("stored", HEAD_RUNS)
    tap.meter.read(HEAD_RUNS, reading, ingested)
    return ingested


def _ask(tap: Tap, place: Place, *, same_heads: bool) -> Drawn:
    if not same_heads:
        # What was read before was read for other heads; and a head's runs may be older than
        # our knowledge of it.
        return ask(tap, replace(place, chain=(), back=tap.window.safe_backfill))
    found = ask(tap, place)
    if found.reading.pages and found.reading.pages < found.reading.asked:
        # How far the mark may move is told by all pages together.
        return ask(tap, replace(place, chain=()))
    return found


def of_heads(runs: Sequence[Item], heads: Mapping[str, int]) -> list[Item]:
    """The runs of these heads, with the numbers of their pull requests."""
    found = ((run, heads.get(str(run.payload.get("head_sha")))) for run in runs)
    return [replace(run, number=number) for run, number in found if number is not None]


def moved(mark: Mark, runs: Sequence[Item], ours: Sequence[Item]) -> Mark:
    """Up to where everything is settled: the newest run, or our oldest one that is not over."""
    waiting = [_created(run) for run in ours if not _is_over(run)]
    newest = max((_created(run) for run in runs), default=mark.at)
    return Mark(max(mark.at, min([*waiting, newest])))


def _is_over(run: Item) -> bool:
    return run.payload.get("status") == "completed"


@strict
def _created(run: Item) -> datetime:
    return parse_stamp(str(run.payload["created_at"]))
