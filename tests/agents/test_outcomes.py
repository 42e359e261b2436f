"""Every ending means one thing, and the page says the same."""

from __future__ import annotations

import re
from pathlib import Path

from hostler.agents.outcomes import (
    LIMIT_OUTCOMES,
    OUTCOME_MEANINGS,
    NextAction,
    Outcome,
    ProviderState,
    outcome_meaning,
)

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "agents.md"


def test_every_outcome_has_a_meaning_that_a_person_can_read():
    assert set(OUTCOME_MEANINGS) == set(Outcome)
    for outcome in Outcome:
        assert outcome_meaning(outcome).sentence.endswith(".")


def test_the_page_shows_the_table_of_the_code():
    section = PAGE.read_text().partition("## Outcomes")[2].partition("\n## ")[0]
    # One row may name several outcomes.
    found = re.findall(r"^\| (`[`\w, ]+`) \| (\w+) \| (\w+) \| (\w+) \|", section, re.MULTILINE)
    rows = [(name, *meaning) for names, *meaning in found for name in re.findall(r"\w+", names)]
    ours = [
        (outcome.value, one.next.value, one.provider.value, "yes" if one.counted else "no")
        for outcome, one in OUTCOME_MEANINGS.items()
    ]
    assert sorted(rows) == sorted(ours)


def test_a_provider_that_presses_us_gets_fewer_agents_and_costs_no_attempt():
    for outcome in LIMIT_OUTCOMES:
        assert outcome_meaning(outcome).provider in {ProviderState.PRESSED, ProviderState.CLOSED}
        assert not outcome_meaning(outcome).counted


def test_only_a_stop_of_ours_stops_for_good():
    stopping = {outcome for outcome in Outcome if outcome_meaning(outcome).next is NextAction.STOP}
    assert stopping == {Outcome.INTERRUPTED}
