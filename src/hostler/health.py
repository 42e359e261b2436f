"""Health checks of `hostler doctor`: the registry of checks and fixes, and running them.

A package registers checks in a module `hostler.<package>.checks`, with the decorator `@check`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import hostler
from hostler.clock import Clock
from hostler.errors import HostlerError


class CheckStatus(StrEnum):
    """Result of a check, from good to bad."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check, with its evidence and what to do about it."""

    check: str
    status: CheckStatus
    evidence: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Inputs of a check. `config_path` is None if there is no settings file."""

    home: Path
    config_path: Path | None
    clock: Clock


CheckFunction = Callable[[CheckContext], Iterable[Finding]]
FixFunction = Callable[[CheckContext], Iterable[str]]


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A registered check. Quick ones use no network and read no large files."""

    name: str
    quick: bool
    run: CheckFunction


@dataclass(frozen=True, slots=True)
class FixResult:
    """What a fix has done, or why it failed."""

    check: str
    what: str
    done: bool = True


_registry: dict[str, HealthCheck] = {}
_fixes: dict[str, FixFunction] = {}


def check(name: str, *, quick: bool = True) -> Callable[[CheckFunction], CheckFunction]:
    """Register a check under a unique name."""

    def register(function: CheckFunction) -> CheckFunction:
        if name in _registry:
            raise ValueError(f"two checks are called {name!r}")
        _registry[name] = HealthCheck(name, quick, function)
        return function

    return register


def fix(name: str) -> Callable[[FixFunction], FixFunction]:
    """Register the safe fix of a check; it yields what it has done."""

    def register(function: FixFunction) -> FixFunction:
        if name in _fixes:
            raise ValueError(f"there are two fixes for {name!r}")
        _fixes[name] = function
        return function

    return register


def load_package_checks() -> None:
    """Import every package's `checks` module, so that its checks register themselves."""
    for module in pkgutil.iter_modules(hostler.__path__, "hostler."):
        if module.ispkg and "checks" in _submodules(module.name):
            importlib.import_module(f"{module.name}.checks")


def _submodules(package: str) -> set[str]:
    spec = importlib.util.find_spec(package)
    locations = spec.submodule_search_locations if spec else None
    return {module.name for module in pkgutil.iter_modules(locations or [])}


def list_checks() -> list[HealthCheck]:
    """Return all checks, sorted by name."""
    return [_registry[name] for name in sorted(_registry)]


def run_checks(context: CheckContext, *, quick: bool = False) -> list[Finding]:
    """Run the checks. A check that raises becomes a finding, and the others still run."""
    findings: list[Finding] = []
    for item in list_checks():
        if item.quick or not quick:
            findings.extend(_run_check(item, context))
    return findings


def _run_check(item: HealthCheck, context: CheckContext) -> list[Finding]:
    try:
        return list(item.run(context))
    except HostlerError as error:
        return [Finding(item.name, CheckStatus.FAILED, error.what, error.remedy)]
    except OSError as error:
        return [Finding(item.name, CheckStatus.FAILED, str(error), "Fix its permissions.")]
    except Exception as error:  # a broken check must not hide the others
        evidence = f"the check itself failed: {type(error).__name__}: {error}"
        return [Finding(item.name, CheckStatus.FAILED, evidence, "Please report this.")]


def apply_fixes(context: CheckContext, findings: Iterable[Finding]) -> list[FixResult]:
    """Apply the fixes of the findings. A fix that fails is reported, and the others still run."""
    checks_to_fix = {
        one.check for one in findings if one.status in (CheckStatus.WARNING, CheckStatus.FAILED)
    }
    done: list[FixResult] = []
    for name in sorted(checks_to_fix & _fixes.keys()):
        try:
            done.extend(FixResult(name, what) for what in _fixes[name](context))
        except HostlerError as error:
            done.append(FixResult(name, f"{error.what} {error.remedy}".strip(), done=False))
        except Exception as error:
            done.append(FixResult(name, f"{type(error).__name__}: {error}", done=False))
    return done


def findings_exit_code(findings: Iterable[Finding]) -> int:
    """Return the exit code: 0 no problems, 1 warnings, 2 failures."""
    worst = {finding.status for finding in findings}
    if CheckStatus.FAILED in worst:
        return 2
    return 1 if CheckStatus.WARNING in worst else 0
