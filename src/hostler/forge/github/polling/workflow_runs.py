"""Read the workflow runs of our own head commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from hostler.forge.events import content_as
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
from hostler.forge.port import Item, WorkflowRun
from hostler.model import parse_timestamp
from hostler.store.repositories import find_feed_pages, save_feed_pages

# The list of one head's runs has a chain and no cursor.
HEAD_RUNS_CHAIN = "head_runs"


def poll_runs(
    context: PollContext, state: SurfaceState, heads: Mapping[str, int], *, same_heads: bool
) -> SurfaceResult:
    """Read the list of runs, and store completed ones of our heads."""
    with context.translate_errors(state.surface):
        found = _read_runs(context, state, same_heads=same_heads)
        own_login = context.forge.own_login()
        own_runs = runs_of_heads(found.reading.items, heads)
        position = next_runs_cursor(found.position, found.reading.items, own_runs)
    if found.reading.items or not is_same_cursor(position, state.cursor):
        with context.store.write(*context.scopes) as tx:
            done = [run for run in own_runs if _is_completed(run)]
            found = replace(
                found, ingested=ingest_items(tx, context.repo, own_login, done, context.settled)
            )
            advance_surface(tx, context, state, position)
            store_surface(tx, context, state, found.reading)
    log_result(context, found, position)
    return found


def sweep_runs(context: PollContext, number: int, head: str) -> IngestCounts:
    """Read the runs of one head, in case an old run was repeated unnoticed."""
    with context.store.read() as tx:
        chain = decode_chains(find_feed_pages(tx, context.repo, HEAD_RUNS_CHAIN, number))
    with context.translate_errors(HEAD_RUNS_CHAIN):
        # An ETag belongs to one URL, which contains the head.
        known = tuple(replace(page, anchor="") for page in chain if page.anchor == head)
        reading = context.forge.list_commit_runs(head, known=known)
        own_login = context.forge.own_login()
    context.observe("read", HEAD_RUNS_CHAIN)
    ingested = IngestCounts()
    if not reading.unchanged:
        own_runs = runs_of_heads(reading.items, {head: number})
        with context.store.write(*context.scopes) as tx:
            ingested = ingest_items(
                tx,
                context.repo,
                own_login,
                [run for run in own_runs if _is_completed(run)],
                context.settled,
            )
            of_head = tuple(replace(page, anchor=head) for page in reading.chain)
            save_feed_pages(tx, context.repo, HEAD_RUNS_CHAIN, number, encode_chains(of_head))
    context.observe("stored", HEAD_RUNS_CHAIN)
    context.poll_metrics.record_read(HEAD_RUNS_CHAIN, reading, ingested)
    return ingested


def _read_runs(context: PollContext, state: SurfaceState, *, same_heads: bool) -> SurfaceResult:
    if not same_heads:
        # The last reading was for other heads, and a head's runs may be older than
        # our knowledge of it.
        return request_changes(context, replace(state, chain=(), back=context.window.safe_backfill))
    found = request_changes(context, state)
    if found.reading.pages and found.reading.pages < found.reading.asked:
        # How far the cursor may move depends on all pages together.
        return request_changes(context, replace(state, chain=()))
    return found


def runs_of_heads(runs: Sequence[Item], heads: Mapping[str, int]) -> list[Item]:
    """Return the runs of these heads, with the numbers of their pull requests."""
    found = (
        (run, heads.get(run.content.head_sha))
        for run in runs
        if isinstance(run.content, WorkflowRun)
    )
    return [replace(run, number=number) for run, number in found if number is not None]


def next_runs_cursor(
    position: CursorState, runs: Sequence[Item], own_runs: Sequence[Item]
) -> CursorState:
    """Return the new cursor: the newest run, or our oldest one that is not completed."""
    waiting = [_created_filter(run) for run in own_runs if not _is_completed(run)]
    newest = max((_created_filter(run) for run in runs), default=position.at)
    return CursorState(max(position.at, min([*waiting, newest])))


def _is_completed(run: Item) -> bool:
    return isinstance(run.content, WorkflowRun) and run.content.over


@strict_parser
def _created_filter(run: Item) -> datetime:
    return parse_timestamp(content_as(run, WorkflowRun).created_at)
