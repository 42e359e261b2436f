"""`hostler sandbox`, a local GitHub, and `hostler sim`, a simulation of the governor."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.help import CommandGroup
from hostler.cli.output import format_json, print_json, print_note, print_raw
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.sandbox.server import StartupInfo
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hostler.sim.scenario import Scenario
    from hostler.sim.tournament import PolicyResult


def register_sandbox(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(sandbox)


def sandbox(
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT", min=0, max=65_535, help="Port on 127.0.0.1; 0 chooses a free one."
        ),
    ] = 0,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File that keeps the state: read at start, written at exit."
        ),
    ] = None,
    seed: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON file of users and repositories (docs/internals/sandbox.md)."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a local GitHub to experiment with.

    Serves API, webhooks and git on this machine only, enforces GitHub's rules and limits, and
    produces faults on demand. If the state file already exists, --seed is ignored. Press Ctrl-C
    to stop.

    \b
    Examples:
      hostler sandbox
      hostler sandbox --port 8080 --state work.json
      hostler sandbox --seed team.json --json
    """
    from hostler.sandbox.server import serve_program

    serve_program(port, state, seed, _print_sandbox_json if json else _print_sandbox_text)
    if state is not None:
        print_note(f"Saved to {state}.")


def _print_sandbox_json(welcome: StartupInfo) -> None:
    from dataclasses import asdict

    print_raw(format_json(asdict(welcome)))
    _flush()


def _print_sandbox_text(welcome: StartupInfo) -> None:
    # The tokens are valid for this sandbox only, so they are printed without redaction.
    print_raw(f"The sandbox GitHub is running at {welcome.url}. Press Ctrl-C to stop.\n")
    print_raw("Users and their tokens:")
    width = max(map(len, welcome.tokens), default=0)
    for login, token in welcome.tokens.items():
        print_raw(f"  {login:<{width}}  {token}")
    if welcome.tokens and welcome.repos:
        _print_hints(welcome)
    _flush()


def _print_hints(welcome: StartupInfo) -> None:
    login, token = next(iter(welcome.tokens.items()))
    repo = welcome.repos[0]
    where = welcome.url.removeprefix("http://")
    print_raw("\nTry:")
    print_raw(f"  git clone http://{login}:{token}@{where}/{repo}.git")
    print_raw(f"  curl -H 'Authorization: Bearer {token}' {welcome.url}/repos/{repo}/issues")
    print_raw("\nTo use Hostler with it, put this into hostler.toml:")
    print_raw("  [github]")
    print_raw(f'  api_url = "{welcome.url}"')
    print_raw(f'  web_url = "{welcome.url}"')
    print_raw(f"and run: export GITHUB_TOKEN={token}")


def _flush() -> None:
    import sys

    sys.stdout.flush()


commands = CommandGroup("sim")


class PolicyOption(StrEnum):
    """Names of the policies; repeated here so that help does not load the simulator."""

    FIXED_8 = "fixed_8"
    FIXED_24 = "fixed_24"
    AIMD_STRICT = "aimd_strict"
    AIMD = "aimd"
    SERVED = "served"
    SERVED_HEADERS = "served_headers"
    NETFLIX = "netflix"
    ORACLE = "oracle"


def register_sim(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def _sim() -> None:
    """Simulate concurrency policies, on this machine only.

    \b
    Example:
      hostler sim governor
    """


@commands.command()
def governor(
    scenario: Annotated[
        str,
        typer.Option(metavar="NAME|FILE", help="Scenario (docs/internals/sim.md) or TOML file."),
    ] = "main",
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Number of days to simulate.")
    ] = 5,
    policy: Annotated[
        list[PolicyOption] | None,
        typer.Option(
            metavar="NAME",
            help="Only fixed_8, fixed_24, aimd_strict, aimd, served, served_headers, netflix or "
            "oracle (repeatable).",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for plots of each policy's first seed, as SVG."),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=256, help="Processes to use; 0: one per core."),
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare adaptive cap policies in a simulation.

    A simulated provider has a limit that the policies cannot see. Uses the governor's real rules
    with a simulated provider, agents, work and clock. The same seed gives the same numbers, and
    the same work to every policy. Starts no agent, calls no provider and stores nothing.

    \b
    Example:
      hostler sim governor
      hostler sim governor --policy aimd --policy served --seeds 20
      hostler sim governor --scenario slow_drift --plot plots
      hostler sim governor --scenario mine.toml --json
    """
    from hostler.sim.scenario import find_scenario
    from hostler.sim.tournament import as_json, parameters, table, tournament

    told = find_scenario(scenario)
    if plot is not None:
        _make_folder(plot)
    names = list(dict.fromkeys(one.value for one in policy or tuple(PolicyOption)))
    standings = tournament(
        told, names, seeds, jobs=jobs or os.cpu_count() or 1, progress=_build_progress()
    )
    if plot is not None:
        _draw_plots(plot, told, standings)
    if json:
        print_json(as_json(told, seeds, standings))
        return
    averages = f"Averages of {seeds} seeds" if seeds != 1 else "One seed"
    print_raw(f"{table(standings)}\n\n{averages}. The model:\n\n{parameters(told)}")


def _build_progress() -> Callable[[int, int], None]:
    """Return a callback that prints every tenth of the work."""
    shown = 0

    def print_progress(done: int, total: int) -> None:
        nonlocal shown
        tenths = done * 10 // total
        if tenths > shown and total > 1:
            shown = tenths
            print_note(f"Simulated {done} of {total} days ...")

    return print_progress


def _make_folder(folder: Path) -> None:
    """Create the folder of the plots; raise HostlerError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable_error(folder, error) from error


def _draw_plots(folder: Path, scenario: Scenario, standings: Sequence[PolicyResult]) -> None:
    from hostler.sim.plot import draw, svg

    for standing in standings:
        first = standing.entries[0]
        shapes = draw(f"{scenario.name}: {standing.policy}, seed {first.seed}", first.moments)
        file = folder / f"governor-{standing.policy}.svg"
        try:
            file.write_text(svg(shapes), encoding="utf-8")
        except OSError as error:
            raise _unwritable_error(folder, error) from error
        print_note(f"Drew {file}.")


def _unwritable_error(folder: Path, error: OSError) -> HostlerError:
    return HostlerError(
        f"Cannot write plots to {folder}: {error.strerror}.",
        safe="Existing files were not changed.",
        remedy="Choose another folder with --plot.",
    )
