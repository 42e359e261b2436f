"""`hostler feedback`: pull requests that shall be listened to again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.output import note, say, say_json
from hostler.cli.task import Json, Opened, opened
from hostler.cli.who import who
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.flows.resuming import Order, Resumed
    from hostler.forge import Hub
    from hostler.intake import Watch
    from hostler.model import RepoName

# No repository has that many.
MOST = 9_999_999_999
Repo = Annotated[
    str, typer.Option(metavar="OWNER/NAME", help="Its repository, if several have that number.")
]
HeadSha = Annotated[
    str, typer.Option(metavar="SHA", help="Refuse unless this is its head on GitHub.")
]

commands = typer.Typer(
    name="feedback",
    help="Let pull requests go on that were closed, stopped or blocked.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class BadRequest(HostlerError):
    """What was asked for makes no sense."""

    exit_code = 2


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    from hostler.cli import feedback_blocked

    commands.add_typer(feedback_blocked.commands)
    app.add_typer(commands)


@commands.command()
def resume(
    context: typer.Context,
    pr: Annotated[int, typer.Option("--pr", min=1, max=MOST, help="Number of the pull request.")],
    repo: Repo = "",
    head_sha: HeadSha = "",
    json: Json = False,
) -> None:
    """Listen to a pull request again that was closed and reopened, or whose task was stopped.

    Closing a pull request stops its task for good; reopening it on GitHub starts nothing. This
    asks GitHub whether it is open, notes its head, and has its task await feedback. What
    allowed people said on it during the last day is taken up, and what they say from now on.
    One that was merged stays so.

    \b
    Example:
      hostler feedback resume --pr 12
      hostler feedback resume --pr 12 --repo octo/stable --json
    """
    from hostler.flows.resuming import pull_meant, resume_pull

    sha, wanted = sha_of(head_sha), repo_of(repo)
    with opened(context) as house:
        with house.store.read() as tx:
            meant = pull_meant(tx, pr, wanted)
        watch = watch_of(house, meant.repo_full_name)
        with github(house) as hub:
            done = resume_pull(house.store, hub.repo(watch.repo), watch, pr, order_of(house, sha))
        _say_resumed(done, json=json)
        mention_service(house)


def _say_resumed(done: Resumed, *, json: bool) -> None:
    pull, task = done.pull, done.task
    if json:
        say_json(
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
        say(f"{name} is listened to already; its task is {state}.")
        return
    say(f"{name} awaits feedback again, at {pull.last_seen_head_sha[:12]}; its task is {state}.")


def order_of(house: Opened, head_sha: str) -> Order:
    """What is asked for, by whom."""
    from datetime import timedelta

    from hostler.flows.resuming import Order

    back = house.settings.runtime.comment_fetch_safe_backfill_seconds
    return Order(who(), head_sha, timedelta(seconds=back))


def sha_of(text: str) -> str:
    """A whole name of a commit, or nothing."""
    sha = text.strip().lower()
    if sha and (len(sha) not in (40, 64) or set(sha) - set("0123456789abcdef")):
        raise BadRequest(
            f"{text[:80]!r} is no commit.",
            safe="Nothing was changed.",
            remedy="Give all 40 digits of its name, as `git rev-parse` prints them.",
        )
    return sha


def repo_of(text: str) -> str:
    """A repository's name, or nothing."""
    if not text:
        return ""
    from hostler.config.repos import parse_name

    return str(parse_name(text))


def watches(house: Opened) -> dict[RepoName, Watch]:
    """The watched repositories."""
    from hostler.intake import watch

    found = [
        watch(project, repo, house.settings.tasks) for project, repo in house.settings.repo.items()
    ]
    return {one.repo: one for one in found}


def watch_of(house: Opened, name: str) -> Watch:
    """A watched repository by its name."""
    for repo, found in watches(house).items():
        if str(repo).lower() == name.lower():
            return found
    raise BadRequest(
        f"{name} is not watched.",
        safe="Nothing was changed.",
        remedy=f"Add it first: hostler repo add {name}",
    )


@contextmanager
def github(house: Opened) -> Iterator[Hub]:
    """GitHub, for the length of a block."""
    from hostler.forge import open_hub

    hub = open_hub(house.settings.github, house.clock)
    try:
        yield hub
    finally:
        hub.close()


def mention_service(house: Opened) -> None:
    """Say so where nobody will take up the work."""
    from hostler.service.presence import presence

    found = presence(house.home)
    if not found.takes_tasks:
        note(found.sentence())
