"""`hostler feedback blocked list | reset`: what is blocked, and letting it go on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.confirming import confirm
from hostler.cli.feedback import (
    MOST,
    BadRequest,
    HeadSha,
    Repo,
    github,
    mention_service,
    order_of,
    repo_of,
    sha_of,
    watch_of,
    watches,
)
from hostler.cli.looks import age, labelled
from hostler.cli.output import note, say, say_json
from hostler.cli.task import Json, Opened, opened
from hostler.errors import HostlerError
from hostler.model import parse_stamp

if TYPE_CHECKING:
    from hostler.flows.blocked import Blocked, Reset
    from hostler.flows.resuming import Order

commands = typer.Typer(
    name="blocked",
    help="Pull requests and issues that are blocked, and letting them go on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@commands.command("list")
def list_blocked(context: typer.Context, json: Json = False) -> None:
    """What is blocked: since when, why, how many words wait for it, and what to do.

    \b
    Example:
      hostler feedback blocked list
    """
    from hostler.flows.blocked import blocked

    with opened(context) as house, house.store.read() as tx:
        now, found = tx.now(), blocked(tx)
    if json:
        say_json([_facts(one) for one in found])
        return
    for one in found:
        for line in _lines(one, now):
            say(line)
    if not found:
        note("Nothing is blocked.")


@commands.command()
def reset(
    context: typer.Context,
    pr: Annotated[
        int | None,
        typer.Option(
            "--pr",
            min=1,
            max=MOST,
            help="Number of the pull request [default: all that is blocked].",
        ),
    ] = None,
    repo: Repo = "",
    head_sha: HeadSha = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask GitHub and say what would be done.")
    ] = False,
    json: Json = False,
) -> None:
    """Let what is blocked go on, when its cause is mended.

    A pull request awaits feedback again, and what was said meanwhile is taken up, once; an
    issue without one is started again. What is closed or merged on GitHub stays as it is.
    Exit code 1: something that is open could not go on.

    \b
    Example:
      hostler feedback blocked reset --pr 12
      hostler feedback blocked reset --dry-run
      hostler feedback blocked reset --repo octo/stable --yes
    """
    if head_sha and pr is None:
        raise BadRequest(
            "A head belongs to one pull request.", remedy="Name it: --pr N --head-sha SHA"
        )
    sha, wanted = sha_of(head_sha), repo_of(repo)
    with opened(context) as house:
        chosen = _chosen(house, pr, wanted)
        if chosen and pr is None and not yes and not dry_run:
            _ask(chosen)
        done, error = _reset(house, chosen, order_of(house, sha), dry=dry_run)
        _say_reset(done, dry=dry_run, json=json)
        if error is not None:
            raise error
        if not dry_run and any(one.task for one in done):
            mention_service(house)
    if any(one.task is None and (pr is not None or not one.over) for one in done):
        raise typer.Exit(1)


def _chosen(house: Opened, pr: int | None, repo: str) -> list[Blocked]:
    from hostler.flows.blocked import blocked
    from hostler.flows.resuming import pull_meant
    from hostler.flows.standing import NotResumed

    with house.store.read() as tx:
        everything = blocked(tx)
        if pr is None:
            return _of_repository(house, everything, repo)
        meant = pull_meant(tx, pr, repo)
        name = meant.repo_full_name
        found = [b for b in everything if b.task.id == meant.task and b.task.pr_number == pr]
    if not found:
        raise NotResumed(
            f"{name}#{pr} is not blocked: it is {meant.status.value.replace('_', ' ')}.",
            f"If it was closed or stopped: hostler feedback resume --pr {pr} --repo {name}",
        )
    return found


def _of_repository(house: Opened, found: list[Blocked], repo: str) -> list[Blocked]:
    chosen = [one for one in found if not repo or str(one.task.repo).lower() == repo.lower()]
    if not chosen and repo:
        watch_of(house, repo)
    return chosen


def _reset(
    house: Opened, chosen: list[Blocked], order: Order, *, dry: bool
) -> tuple[list[Reset], HostlerError | None]:
    """What became of each, and what kept us from the rest, if anything."""
    from hostler.flows.blocked import Resetter

    done: list[Reset] = []
    if not chosen:
        return done, None
    with github(house) as hub:
        resetter = Resetter(house.store, hub.repo, watches(house), order, dry)
        try:
            for one in chosen:
                done.append(resetter.reset(one))
        except HostlerError as error:
            return done, error
    return done, None


def _ask(chosen: list[Blocked]) -> None:
    for one in chosen:
        note(f"{one.name}  {' '.join(one.task.reason.split())}")
    confirm(f"Let {len(chosen)} go on?")


def _say_reset(done: list[Reset], *, dry: bool, json: bool) -> None:
    if json:
        say_json([_reset_facts(one, dry=dry) for one in done])
        return
    for one in done:
        if one.task is None:
            say(f"{one.blocked.name} stays as it is. {one.why}")
        elif dry:
            say(f"{one.blocked.name} would go on; {one.blocked.waiting} words wait for it.")
        else:
            say(f"{one.blocked.name} goes on: {one.task.state.value.replace('_', ' ')}.")
    if not done:
        note("Nothing is blocked.")


def _reset_facts(one: Reset, *, dry: bool) -> dict[str, object]:
    state = one.task.state.value if one.task else one.blocked.task.state.value
    went = one.task is not None
    return {**_facts(one.blocked), "state": state, "reset": went and not dry, "why_not": one.why}


def _facts(one: Blocked) -> dict[str, object]:
    task = one.task
    return {
        "repo": task.repo_full_name,
        "pr": task.pr_number,
        "issue": task.issue_number,
        "task": task.id,
        "since": task.state_since,
        "why": task.reason,
        "waiting": one.waiting,
        "do": one.remedy,
    }


def _lines(one: Blocked, now: datetime) -> Iterator[str]:
    seconds = (now - parse_stamp(one.task.state_since)).total_seconds()
    kind = "issue" if one.task.pr_number is None else "pull"
    yield from labelled(kind, one.name)
    yield from labelled("since", f"{one.task.state_since} ({age(seconds)})")
    yield from labelled("why", one.task.reason or "It does not say.")
    yield from labelled("words wait", str(one.waiting))
    yield from labelled("do", one.remedy)
    yield ""
