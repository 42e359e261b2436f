"""`hostler doctor`, `hostler support-bundle` and `hostler notify test`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.context import GlobalOptions, global_options, load_settings
from hostler.cli.help import CommandGroup
from hostler.cli.output import (
    DIM,
    GREEN,
    RED,
    YELLOW,
    colourise,
    print_json,
    print_line,
    print_note,
)

if TYPE_CHECKING:
    from hostler.health import Finding, FixResult
if TYPE_CHECKING:
    from hostler.config.loader import LoadedSettings


_STATUS_COLOURS = {"ok": GREEN, "skipped": DIM, "warning": YELLOW, "failed": RED}


def register_doctor(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(doctor)


def doctor(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="Skip slow checks.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Apply safe fixes, then check again.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the setup and the state of this installation.

    Checks settings, database, GitHub access, agents, disk and leftovers of finished runs. Each
    finding shows evidence and what to do. --fix repairs file permissions, releases slots and
    kills processes left by finished runs, and deletes checkouts that contain no unsaved work.
    Exit code 0: no problems; 1: warnings; 2: failures.

    \b
    Example:
      hostler doctor
      hostler doctor --fix
      hostler doctor --quick --json
    """
    from hostler import health
    from hostler.clock import SystemClock
    from hostler.config.loader import find_settings_file

    given = global_options(context)
    home = given.home_folder
    health.load_package_checks()
    where = health.CheckContext(home, find_settings_file(home, given.config), SystemClock())
    findings = health.run_checks(where, quick=quick)
    fixed = health.apply_fixes(where, findings) if fix else []
    if fixed:
        findings = health.run_checks(where, quick=quick)
    if json:
        found = {"findings": [asdict(f) for f in findings], "fixed": [asdict(m) for m in fixed]}
        print_json({"exit_code": health.findings_exit_code(findings), **found})
    else:
        for one in fixed:
            _print_fix(one)
        for finding in findings:
            print_finding(finding)
    raise typer.Exit(health.findings_exit_code(findings))


def _print_fix(fixed: FixResult) -> None:
    word, colour = ("fixed", GREEN) if fixed.done else ("not fixed", RED)
    print_line(f"{colourise(f'{word:<8}', colour)} {fixed.check}: {fixed.what}")


def print_finding(finding: Finding, subject: str = "") -> None:
    """Print one finding; `subject` names the thing checked, if there are several."""
    status = colourise(f"{finding.status:<8}", _STATUS_COLOURS[finding.status])
    about = f"{subject}.{finding.check}" if subject else finding.check
    print_line(f"{status} {about}: {finding.evidence}")
    if finding.remedy:
        print_line(f"         {finding.remedy}")


PART_DESCRIPTIONS = {
    "versions.json": "Hostler, Python, the system, libraries",
    "settings.toml": "the effective settings, without secrets",
    "doctor.json": "findings of `hostler doctor --quick`",
    "counts.json": "number of rows per table, and of tasks, runs and writes per state",
    "disks.json": "free space on the disks of the home",
    "log.jsonl": "the last log lines, without texts written by people or agents",
}


def register_support_bundle(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("support-bundle")(support_bundle)


def support_bundle(
    context: typer.Context,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write; it must not exist yet."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write an archive to attach to a bug report.

    Contains versions, settings, findings, counts, log lines and repository names, but no
    secrets, prompts, code, titles or comments. Works offline and changes nothing. `MANIFEST.txt`
    in the archive lists its contents.

    \b
    Example:
      hostler support-bundle
      hostler support-bundle --output bundle.tar.gz
    """
    from hostler.clock import SystemClock
    from hostler.service import support_bundle as support

    given = global_options(context)
    moment = f"{SystemClock().now():%Y%m%d-%H%M%S}"
    name = f"hostler-support-{moment}"
    parts = _build_parts(given)
    parts = {support.MANIFEST_NAME: support.render_manifest(parts, PART_DESCRIPTIONS), **parts}
    place = output or Path(f"{name}.tar.gz")
    _write_bundle(place, support.build_archive(parts, name))
    if json:
        print_json({"file": str(place), "parts": {name: len(text) for name, text in parts.items()}})
        return
    print_line(parts[support.MANIFEST_NAME].rstrip())
    print_note(f"Wrote {place}.")


def _build_parts(given: GlobalOptions) -> dict[str, str]:
    from hostler.service import support_bundle as support
    from hostler.service.scheduling.gates import read_disk_space

    loaded, broken = _try_load_settings(given)
    home = given.home_folder
    makers: dict[str, Callable[[], str]] = {
        "versions.json": lambda: support.to_json(support.read_versions()),
        "settings.toml": lambda: _settings_toml(loaded) if loaded else f"# {broken}\n",
        "doctor.json": lambda: support.to_json(_run_quick_checks(given)),
        "counts.json": lambda: support.to_json(_count_rows(given, loaded)),
        "disks.json": lambda: support.to_json([_disk_json(one) for one in read_disk_space(home)]),
        "log.jsonl": lambda: "".join(f"{one}\n" for one in support.read_log_lines(home / "logs")),
    }
    return {name: _build_part(make) for name, make in makers.items()}


def _build_part(make: Callable[[], str]) -> str:
    """Return a part's text, or the error that prevented it, so that the other parts are kept."""
    from hostler.telemetry.redaction import redact

    try:
        return make()
    except Exception as error:
        return redact(f"({type(error).__name__}: this part could not be created)\n")


def _try_load_settings(given: GlobalOptions) -> tuple[LoadedSettings | None, str]:
    from hostler.errors import HostlerError

    try:
        return load_settings(given), ""
    except HostlerError as error:
        return None, f"The settings have mistakes ({type(error).__name__})."


def _settings_toml(loaded: LoadedSettings) -> str:
    from hostler.config.reference import format_toml
    from hostler.telemetry.redaction import redact

    return redact(format_toml(loaded.settings, loaded.given))


def _run_quick_checks(given: GlobalOptions) -> list[dict[str, str]]:
    from hostler import health
    from hostler.clock import SystemClock
    from hostler.config.loader import find_settings_file
    from hostler.service.support_bundle import findings_json

    home = given.home_folder
    health.load_package_checks()
    where = health.CheckContext(home, find_settings_file(home, given.config), SystemClock())
    return findings_json(health.run_checks(where, quick=True))


def _count_rows(given: GlobalOptions, loaded: LoadedSettings | None) -> object:
    from contextlib import closing

    from hostler.errors import StoreMissing
    from hostler.store import open_store
    from hostler.store.admin.inspect import census

    url = loaded.settings.runtime.database_url if loaded else ""
    try:
        with closing(open_store(given.home_folder, url or None)) as store, store.read() as tx:
            return census(tx)
    except StoreMissing:
        return {"rows": {}}


def _disk_json(room: object) -> dict[str, object]:
    from dataclasses import asdict

    from hostler.service.scheduling.gates import DiskSpace

    assert isinstance(room, DiskSpace)
    return asdict(room)


def _write_bundle(place: Path, data: bytes) -> None:
    from hostler.errors import HostlerError

    try:
        # Other users of this machine must not read it.
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise HostlerError(
            f"{place} already exists.",
            safe="Nothing was written.",
            remedy="Choose another file with --output.",
        ) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


commands = CommandGroup("notify")


def register_notify(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.callback()
def notify() -> None:
    """Test notifications.

    \b
    Example:
      hostler notify test
    """


@commands.command()
def test(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Send one test notification to the address of `[notify]` and print the result.

    Needs neither service nor database. The address is a secret and is not shown.

    \b
    Example:
      hostler notify test
      hostler notify test --json
    """
    import os

    from hostler.clock import SystemClock
    from hostler.errors import HostlerError
    from hostler.model import format_timestamp
    from hostler.service.notifications.delivery import (
        build_request,
        post_notification,
        read_address,
    )
    from hostler.store.operator import Notice

    settings = load_settings(global_options(context)).settings.notify
    address = read_address(settings, os.environ)
    if address is None:
        raise HostlerError(
            "No notification address is configured.",
            safe="Nothing was sent.",
            remedy="Set `notify.url_env` or `notify.url_file`.",
        )
    now = format_timestamp(SystemClock().now())
    text = "If you can read this, notifications work."
    notice = Notice(f"test:{now}", "test", "Test notification from Hostler", text, created_at=now)
    status = post_notification(address, build_request(notice, settings.shape, address.secret))
    signed = bool(address.secret)
    if json:
        print_json({"status": status, "shape": settings.shape, "signed": signed})
    else:
        how = "signed" if signed else "not signed"
        print_line(f"Sent: HTTP {status} ({settings.shape}, {how}).")
