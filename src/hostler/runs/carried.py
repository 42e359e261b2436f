"""Tokens and money of one run, where its program goes on counting through a whole session."""

from __future__ import annotations

from dataclasses import replace

from hostler.agents.events import Usage
from hostler.agents.kinds import KINDS
from hostler.agents.tally import Tally
from hostler.store import Transaction
from hostler.store.runs import Run, spent_in_session

USAGE, USD = "usage", "usd"


def own_share(tx: Transaction, run: Run, tally: Tally) -> Tally:
    """The tally with what this run has spent itself, without what earlier ones in its session did.

    What an earlier run did not live to say is counted here, by the first that does.
    """
    kind = KINDS.get(run.agent_kind)
    carried = kind.program.carried if kind and kind.program else frozenset()
    if not carried or not tally.session:
        return tally
    tokens_in, tokens_out, cached, usd = spent_in_session(tx, run.task_id, tally.session, run.fence)
    before = Usage(tokens_in, tokens_out, cached)
    usage = less(tally.usage, before) if USAGE in carried else tally.usage
    return replace(
        tally, usage=usage, usd=max(tally.usd - usd, 0.0) if USD in carried else tally.usd
    )


def less(total: Usage, before: Usage) -> Usage:
    """Tokens of a session since an earlier moment; never fewer than none. Pure."""
    return Usage(
        max(total.input_tokens - before.input_tokens, 0),
        max(total.output_tokens - before.output_tokens, 0),
        max(total.cached_tokens - before.cached_tokens, 0),
        total=True,
    )
