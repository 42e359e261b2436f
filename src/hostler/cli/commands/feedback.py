"""`hostler feedback`: resume pull requests that were closed, stopped or blocked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.context import CommandHome, JsonOption, current_actor, open_home
from hostler.cli.help import CommandGroup
from hostler.cli.output import (
    format_labelled,
    print_json,
    print_line,
    print_note,
    require_confirmation,
)
from hostler.errors import HostlerError
from hostler.model import parse_timestamp
from hostler.text import format_age

if TYPE_CHECKING:
    from hostler.forge.github.hub import GitHubHub
    from hostler.intake.repo_policy import RepoPolicy
    from hostler.model import RepoName
    from hostler.workflows.resume import ResumedPull, ResumeRequest
if TYPE_CHECKING:
    from hostler.workflows.resume import BlockedTask, ResetResult, ResumeRequest


# Larger than any pull request number.
MAX_PULL_NUMBER = 9_999_999_999
RepoOption = Annotated[
    str, typer.Option(metavar="OWNER/NAME", help="Repository, if several have this number.")
]
HeadShaOption = Annotated[
    str, typer.Option(metavar="SHA", help="Do nothing unless this is its head on GitHub.")
]

commands = CommandGroup(
    "feedback",
    """Resume closed, stopped or blocked pull requests.

    \b
    Example:
      hostler feedback resume --pr 12
      hostler feedback blocked list
    """,
)


class InvalidFeedbackRequest(HostlerError):
    """The options of a feedback command are invalid."""

    exit_code = 2


def register_feedback(app: typer.Typer) -> None:
    """Add the commands of this group."""

    commands.add_typer(blocked_commands)
    app.add_typer(commands)


@commands.command()
def resume(
    context: typer.Context,
    pr: Annotated[
        int,
        typer.Option(
            "--pr", metavar="N", min=1, max=MAX_PULL_NUMBER, help="Number of the pull request."
        ),
    ],
    repo: RepoOption = "",
    head_sha: HeadShaOption = "",
    json: JsonOption = False,
) -> None:
    """Resume the task of a reopened pull request.

    Also resumes a pull request whose task was stopped. Closing a pull request stops its task, and
    reopening it on GitHub does not restart it. This command checks on GitHub that it is open and
    lets the task wait for feedback again. Comments by allowed users of the last day, and new
    ones, will be addressed. Merged pull requests cannot be resumed.

    \b
    Example:
      hostler feedback resume --pr 12
      hostler feedback resume --pr 12 --repo octo/stable --json
    """
    from hostler.workflows.resume import find_own_pull, resume_pull

    sha, wanted = _parse_sha(head_sha), _parse_repo(repo)
    with open_home(context) as opened:
        with opened.store.read() as tx:
            meant = find_own_pull(tx, pr, wanted)
        watch = _require_watched(opened, meant.repo_full_name)
        with _open_github(opened) as hub:
            done = resume_pull(
                opened.store, hub.repo(watch.repo), watch, pr, _build_request(opened, sha)
            )
        _print_resumed(done, json=json)
        _note_if_not_running(opened)


def _print_resumed(done: ResumedPull, *, json: bool) -> None:
    pull, task = done.pull, done.task
    if json:
        print_json(
            {
                "repo": pull.repo_full_name,
                "pr": pull.pr_number,
                "status": pull.status.value,
                "head_sha": pull.last_seen_head_sha,
                "task": task.id,
                "state": task.state.value,
                "changed": done.changed,
            }
        )
        return
    name, state = f"{pull.repo_full_name}#{pull.pr_number}", task.state.value.replace("_", " ")
    if not done.changed:
        print_line(f"{name} is active already; its task is {state}.")
        return
    print_line(f"Resumed {name} at {pull.last_seen_head_sha[:12]}; its task is {state}.")


def _build_request(opened: CommandHome, head_sha: str) -> ResumeRequest:
    """Build the request to resume, with the caller as its actor."""
    from datetime import timedelta

    from hostler.workflows.resume import ResumeRequest

    back = opened.settings.runtime.comment_fetch_safe_backfill_seconds
    return ResumeRequest(current_actor(), head_sha, timedelta(seconds=back))


def _parse_sha(text: str) -> str:
    """Return a full commit SHA or an empty text; raise BadRequest for anything else."""
    sha = text.strip().lower()
    if sha and (len(sha) not in (40, 64) or set(sha) - set("0123456789abcdef")):
        raise InvalidFeedbackRequest(
            f"Invalid commit SHA {text[:80]!r}.",
            safe="Nothing was changed.",
            remedy="Give all 40 digits, as `git rev-parse` prints them.",
        )
    return sha


def _parse_repo(text: str) -> str:
    """Return a repository's full name, or an empty text."""
    if not text:
        return ""
    from hostler.config.repositories import parse_repo_name

    return str(parse_repo_name(text))


def _list_watched(opened: CommandHome) -> dict[RepoName, RepoPolicy]:
    """Return the policies of the watched repositories."""
    from hostler.intake.repo_policy import build_repo_policy

    found = [
        build_repo_policy(project, repo, opened.settings.tasks)
        for project, repo in opened.settings.repo.items()
    ]
    return {one.repo: one for one in found}


def _require_watched(opened: CommandHome, name: str) -> RepoPolicy:
    """Return the policy of a watched repository; raise BadRequest if it is not watched."""
    for repo, found in _list_watched(opened).items():
        if str(repo).lower() == name.lower():
            return found
    raise InvalidFeedbackRequest(
        f"{name} is not watched.",
        safe="Nothing was changed.",
        remedy=f"Add it first: hostler repo add {name}",
    )


@contextmanager
def _open_github(opened: CommandHome) -> Iterator[GitHubHub]:
    """Open the connection to GitHub for the block."""
    from hostler.forge.github.hub import open_github

    hub = open_github(opened.settings.github, opened.clock)
    try:
        yield hub
    finally:
        hub.close()


def _note_if_not_running(opened: CommandHome) -> None:
    """Print a note if no service is running."""
    from hostler.service.context import read_presence

    found = read_presence(opened.home)
    if not found.takes_tasks:
        print_note(found.sentence())


blocked_commands = CommandGroup(
    "blocked",
    """List and resume blocked pull requests and issues.

    \b
    Example:
      hostler feedback blocked list
    """,
)


@blocked_commands.command("list")
def list_blocked(context: typer.Context, json: JsonOption = False) -> None:
    """List blocked pull requests and issues: since when, why, and what to do.

    \b
    Example:
      hostler feedback blocked list
    """
    from hostler.workflows.resume import list_blocked as blocked

    with open_home(context) as opened, opened.store.read() as tx:
        now, found = tx.now(), blocked(tx)
    if json:
        print_json([_blocked_json(one) for one in found])
        return
    for one in found:
        for line in _format_blocked(one, now):
            print_line(line)
    if not found:
        print_note("No task is blocked.")


@blocked_commands.command()
def reset(
    context: typer.Context,
    pr: Annotated[
        int | None,
        typer.Option(
            "--pr",
            metavar="N",
            min=1,
            max=MAX_PULL_NUMBER,
            help="Number of the pull request [default: all blocked ones].",
        ),
    ] = None,
    repo: RepoOption = "",
    head_sha: HeadShaOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check on GitHub and show what would be done.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Resume blocked pull requests and issues once their cause is fixed.

    A pull request waits for feedback again, and comments that arrived in the meantime are
    addressed; an issue without a pull request is restarted. Closed and merged pull requests are
    left alone. Exit code 1: an open one could not be resumed.

    \b
    Example:
      hostler feedback blocked reset --pr 12
      hostler feedback blocked reset --dry-run
      hostler feedback blocked reset --repo octo/stable --yes
    """
    if head_sha and pr is None:
        raise InvalidFeedbackRequest(
            "--head-sha needs --pr.", remedy="Name the pull request: --pr N --head-sha SHA"
        )
    sha, wanted = _parse_sha(head_sha), _parse_repo(repo)
    with open_home(context) as opened:
        chosen = _select_blocked(opened, pr, wanted)
        if chosen and pr is None and not yes and not dry_run:
            _confirm_reset(chosen)
        done, error = _reset_tasks(opened, chosen, _build_request(opened, sha), dry=dry_run)
        _print_reset(done, dry=dry_run, json=json)
        if error is not None:
            raise error
        if not dry_run and any(one.task for one in done):
            _note_if_not_running(opened)
    if any(one.task is None and (pr is not None or not one.closed) for one in done):
        raise typer.Exit(1)


def _select_blocked(opened: CommandHome, pr: int | None, repo: str) -> list[BlockedTask]:
    from hostler.workflows.resume import NotResumed, find_own_pull
    from hostler.workflows.resume import list_blocked as blocked

    with opened.store.read() as tx:
        everything = blocked(tx)
        if pr is None:
            return _filter_by_repo(opened, everything, repo)
        meant = find_own_pull(tx, pr, repo)
        name = meant.repo_full_name
        found = [b for b in everything if b.task.id == meant.task and b.task.pr_number == pr]
    if not found:
        raise NotResumed(
            f"{name}#{pr} is not blocked: it is {meant.status.value.replace('_', ' ')}.",
            f"If it was closed or stopped: hostler feedback resume --pr {pr} --repo {name}",
        )
    return found


def _filter_by_repo(opened: CommandHome, found: list[BlockedTask], repo: str) -> list[BlockedTask]:
    chosen = [one for one in found if not repo or str(one.task.repo).lower() == repo.lower()]
    if not chosen and repo:
        _require_watched(opened, repo)
    return chosen


def _reset_tasks(
    opened: CommandHome, chosen: list[BlockedTask], order: ResumeRequest, *, dry: bool
) -> tuple[list[ResetResult], HostlerError | None]:
    """Reset each task; return the results and the error that stopped the rest, if any."""
    from hostler.workflows.resume import BlockedTaskResetter

    done: list[ResetResult] = []
    if not chosen:
        return done, None
    with _open_github(opened) as hub:
        resetter = BlockedTaskResetter(opened.store, hub.repo, _list_watched(opened), order, dry)
        try:
            for one in chosen:
                done.append(resetter.reset(one))
        except HostlerError as error:
            return done, error
    return done, None


def _confirm_reset(chosen: list[BlockedTask]) -> None:
    for one in chosen:
        print_note(f"{one.name}  {' '.join(one.task.reason.split())}")
    require_confirmation(f"Resume {len(chosen)} blocked task{'s' if len(chosen) != 1 else ''}?")


def _print_reset(done: list[ResetResult], *, dry: bool, json: bool) -> None:
    if json:
        print_json([_reset_json(one, dry=dry) for one in done])
        return
    for one in done:
        if one.task is None:
            print_line(f"{one.blocked.name} was not resumed. {one.why}")
        elif dry:
            count = one.blocked.waiting
            print_line(
                f"Would resume {one.blocked.name} "
                f"({count} comment{'s' if count != 1 else ''} waiting)."
            )
        else:
            state = one.task.state.value.replace("_", " ")
            print_line(f"Resumed {one.blocked.name}: {state}.")
    if not done:
        print_note("No task is blocked.")


def _reset_json(one: ResetResult, *, dry: bool) -> dict[str, object]:
    state = one.task.state.value if one.task else one.blocked.task.state.value
    return {
        **_blocked_json(one.blocked),
        "state": state,
        "reset": one.task is not None and not dry,
        "why_not": one.why,
    }


def _blocked_json(one: BlockedTask) -> dict[str, object]:
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


def _format_blocked(one: BlockedTask, now: datetime) -> Iterator[str]:
    seconds = (now - parse_timestamp(one.task.state_since)).total_seconds()
    kind = "issue" if one.task.pr_number is None else "pull"
    yield from format_labelled(kind, one.name)
    yield from format_labelled("since", f"{one.task.state_since} ({format_age(seconds)})")
    yield from format_labelled("why", one.task.reason or "No reason was given.")
    yield from format_labelled("comments", f"{one.waiting} waiting")
    yield from format_labelled("do", one.remedy)
    yield ""
