"""Read the workflow runs of our own head commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from hostler.forge.github.payloads import strict_parser
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.cursors import (
    CursorState,
    decode_chains,
    encode_chains,
    is_same_cursor,
)
from hostler.forge.github.polling.ingest import IngestCounts, ingest_items
from hostler.forge.github.polling.surfaces import (
    SurfaceResult,
    SurfaceState,
    advance_surface,
    log_result,
    request_changes,
    store_surface,
)
from hostler.forge.port import Item
from hostler.model import parse_timestamp
from hostler.store.repositories import find_chain, save_chain

# The list of one head's runs has a chain and no cursor.
HEAD_RUNS_CHAIN = "head_runs"


def poll_runs(
    tap: PollContext, place: SurfaceState, heads: Mapping[str, int], *, same_heads: bool
) -> SurfaceResult:
    """Read the list of runs, and store those of our heads that are over."""
    with tap.polling(place.surface):
        found = _read_runs(tap, place, same_heads=same_heads)
        me = tap.forge.myself()
        ours = runs_of_heads(found.reading.items, heads)
        mark = next_runs_cursor(found.mark, found.reading.items, ours)
    if found.reading.items or not is_same_cursor(mark, place.cursor):
        with tap.store.write(*tap.scopes) as tx:
            done = [run for run in ours if _is_completed(run)]
            found = replace(found, ingested=ingest_items(tx, tap.repo, me, done, tap.settled))
            advance_surface(tx, tap, place, mark)
            store_surface(tx, tap, place, found.reading)
    log_result(tap, found, mark)
    return found


def sweep_runs(tap: PollContext, number: int, head: str) -> IngestCounts:
    """The runs of one head, in case an old one was repeated and nothing said so."""
    with tap.store.read() as tx:
        chain = decode_chains(find_chain(tx, tap.repo, HEAD_RUNS_CHAIN, number))
    with tap.polling(HEAD_RUNS_CHAIN):
        # An ETag is of one address, and the head is part of it.
        known = tuple(replace(page, anchor="") for page in chain if page.anchor == head)
        reading = tap.forge.runs_of(head, known=known)
        me = tap.forge.myself()
    tap.observe("read", HEAD_RUNS_CHAIN)
    ingested = IngestCounts()
    if not reading.unchanged:
        ours = runs_of_heads(reading.items, {head: number})
        with tap.store.write(*tap.scopes) as tx:
            ingested = ingest_items(
                tx, tap.repo, me, [run for run in ours if _is_completed(run)], tap.settled
            )
            of_head = tuple(replace(page, anchor=head) for page in reading.chain)
            save_chain(tx, tap.repo, HEAD_RUNS_CHAIN, number, encode_chains(of_head))
    tap.observe("stored", HEAD_RUNS_CHAIN)
    tap.meter.read(HEAD_RUNS_CHAIN, reading, ingested)
    return ingested


def _read_runs(tap: PollContext, place: SurfaceState, *, same_heads: bool) -> SurfaceResult:
    if not same_heads:
        # What was read before was read for other heads; and a head's runs may be older than
        # our knowledge of it.
        return request_changes(tap, replace(place, chain=(), back=tap.window.safe_backfill))
    found = request_changes(tap, place)
    if found.reading.pages and found.reading.pages < found.reading.asked:
        # How far the mark may move is told by all pages together.
        return request_changes(tap, replace(place, chain=()))
    return found


def runs_of_heads(runs: Sequence[Item], heads: Mapping[str, int]) -> list[Item]:
    """The runs of these heads, with the numbers of their pull requests."""
    found = ((run, heads.get(str(run.payload.get("head_sha")))) for run in runs)
    return [replace(run, number=number) for run, number in found if number is not None]


def next_runs_cursor(mark: CursorState, runs: Sequence[Item], ours: Sequence[Item]) -> CursorState:
    """Up to where everything is settled: the newest run, or our oldest one that is not over."""
    waiting = [_created_filter(run) for run in ours if not _is_completed(run)]
    newest = max((_created_filter(run) for run in runs), default=mark.at)
    return CursorState(max(mark.at, min([*waiting, newest])))


def _is_completed(run: Item) -> bool:
    return run.payload.get("status") == "completed"


@strict_parser
def _created_filter(run: Item) -> datetime:
    return parse_timestamp(str(run.payload["created_at"]))
