"""What exists is documented, and what is documented exists."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from hostler.agents.outcomes import Outcome
from hostler.cli.main import app
from hostler.cli.reference import render_page as commands_page
from hostler.cli.reference import walk_commands
from hostler.config.reference import list_keys, render_reference
from hostler.governor.adaptive.model import BreakerState, PoolState
from hostler.governor.gates import Gate as GovernorGate
from hostler.service.scheduling.gates import HomeGate
from hostler.store.outbox import WriteState
from hostler.store.pull_requests import PullStatus
from hostler.store.runs import RunState
from hostler.store.tasks import TaskState
from hostler.telemetry.names import EVENTS, METRICS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])


def test_the_reference_page_is_the_one_the_program_writes():
    assert (REFERENCE / "configuration.md").read_text() == render_reference(), (
        "run: hostler config reference --output docs/reference/configuration.md"
    )


def test_every_setting_is_documented():
    page = (REFERENCE / "configuration.md").read_text()
    for key in list_keys():
        assert f"{key.name}`" in page


COMMANDS = dict(walk_commands(typer.main.get_command(app)))


def test_the_page_of_commands_is_the_one_the_program_writes():
    assert (REFERENCE / "commands.md").read_text() == commands_page(), (
        "run: python -m hostler.cli.reference > docs/reference/commands.md"
    )


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_is_documented(path):
    page = (REFERENCE / "commands.md").read_text()
    _, _, section = page.partition(f"\n## `hostler {' '.join(path)}`\n")
    assert section, f"docs/reference/commands.md has no section for hostler {' '.join(path)}"
    section = section.partition("\n## ")[0]
    for parameter in COMMANDS[path].params:
        for flag in parameter.opts:
            if flag.startswith("--") and flag != "--help":
                assert f"`{flag}" in section, f"{flag} of hostler {' '.join(path)}"


def test_no_command_is_documented_that_does_not_exist():
    page = (REFERENCE / "commands.md").read_text()
    documented = set(re.findall(r"^## `hostler ([^`]+)`$", page, re.MULTILINE))
    assert documented == {" ".join(path) for path in COMMANDS}


def test_exactly_the_declared_events_and_metrics_are_documented():
    page = (REFERENCE / "events-and-metrics.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_0-9]+)` \|", page, re.MULTILINE))
    assert documented == {item.name for item in (*EVENTS, *METRICS)}
    for item in (*EVENTS, *METRICS):
        row = next(line for line in page.splitlines() if line.startswith(f"| `{item.name}` |"))
        for field in getattr(item, "fields", ()) or getattr(item, "labels", ()):
            assert field in row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_package_has_a_page():
    packages = [path.parent.name for path in (ROOT / "src/hostler").glob("*/__init__.py")]
    pages = {"config": "base", "telemetry": "base"}
    for package in packages:
        page = DOCS / "internals" / f"{pages.get(package, package)}.md"
        assert page.exists(), f"{page.relative_to(ROOT)} is missing"


def test_every_page_is_reachable_from_the_index():
    index = (DOCS / "README.md").read_text()
    for page in DOCS.rglob("*.md"):
        name = str(page.relative_to(DOCS))
        if name != "README.md" and not name.startswith("decisions/"):
            assert f"({name})" in index, f"docs/README.md does not mention {name}"


@pytest.mark.parametrize(
    ("heading", "states"),
    [
        ("A task", TaskState),
        ("A run", RunState),
        ("How a run ended", Outcome),
        ("A pull request", PullStatus),
        ("A write to GitHub", WriteState),
    ],
)
def test_the_page_of_states_explains_every_state(heading, states):
    page = (REFERENCE / "states.md").read_text()
    _, _, section = page.partition(f"# {heading}\n")
    rows = [line for line in section.partition("\n#")[0].splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(state.value for state in states)


def test_the_page_of_states_explains_every_state_of_pools_and_breakers():
    page = (REFERENCE / "states.md").read_text()

    def explained(heading):
        section = page.partition(f"# {heading}\n")[2].partition("\n#")[0]
        rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
        assert all(row[2].strip() for row in rows)
        return {row[1].strip(" `") for row in rows}

    assert explained("A breaker") == {one.value or "closed" for one in BreakerState}
    moments = {"gate_until", "next_dispatch_at", "settle_until", "damaged_at"}
    assert moments <= {field.name for field in fields(PoolState)}
    assert explained("A pool") == {"open", "parked", "at the floor", *moments}


def test_the_how_to_explains_every_gate():
    page = (DOCS / "how-to" / "find-out-why-a-task-waits.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert {gate.value for gate in (*HomeGate, *GovernorGate)} <= named


def test_files_named_for_contributors_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = [line.split("|")[2] for line in text.splitlines() if line.startswith("| ")]
    named = re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py|\.md)?)`", " ".join(table))
    assert len(named) > 25
    roots = (ROOT / "src" / "hostler", ROOT)
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []
