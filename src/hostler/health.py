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
    """How a check went, from good to bad."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer: how it is, how we know, and what to do about it."""

    check: str
    status: CheckStatus
    evidence: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What a check may look at. `config_path` is None where no file was named or found."""

    home: Path
    config_path: Path | None
    clock: Clock


CheckFunction = Callable[[CheckContext], Iterable[Finding]]
FixFunction = Callable[[CheckContext], Iterable[str]]


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A registered check. Quick ones touch neither network nor whole files."""

    name: str
    quick: bool
    run: CheckFunction


@dataclass(frozen=True, slots=True)
class FixResult:
    """What was done about a finding, or why it could not be done."""

    check: str
    what: str
    done: bool = True


_registry: dict[str, HealthCheck] = {}
_fixes: dict[str, FixFunction] = {}


def check(name: str, *, quick: bool = True) -> Callable[[CheckFunction], CheckFunction]:
    """Register a check under a name of its own."""

    def register(function: CheckFunction) -> CheckFunction:
        if name in _registry:
            raise ValueError(f"two checks are called {name!r}")
        _registry[name] = HealthCheck(name, quick, function)
        return function

    return register


def fix(name: str) -> Callable[[FixFunction], FixFunction]:
    """Register what is safe to do when a check finds something; it says what it has done."""

    def register(function: FixFunction) -> FixFunction:
        if name in _fixes:
            raise ValueError(f"there are two mends for {name!r}")
        _fixes[name] = function
        return function

    return register


def load_package_checks() -> None:
    """Import every room's `checks` module, so that its checks register themselves."""
    for module in pkgutil.iter_modules(hostler.__path__, "hostler."):
        if module.ispkg and "checks" in _submodules(module.name):
            importlib.import_module(f"{module.name}.checks")


def _submodules(package: str) -> set[str]:
    spec = importlib.util.find_spec(package)
    locations = spec.submodule_search_locations if spec else None
    return {module.name for module in pkgutil.iter_modules(locations or [])}


def list_checks() -> list[HealthCheck]:
    """All checks, in the order of their names."""
    return [_registry[name] for name in sorted(_registry)]


def run_checks(context: CheckContext, *, quick: bool = False) -> list[Finding]:
    """Run the checks. One that raises is a finding itself and stops no other."""
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
        return [
            Finding(item.name, CheckStatus.FAILED, str(error), "Mend its rights, or name another.")
        ]
    except Exception as error:  # a broken check must not hide the others
        evidence = f"the check itself broke: {type(error).__name__}: {error}"
        return [Finding(item.name, CheckStatus.FAILED, evidence, "Please report this.")]


def apply_fixes(context: CheckContext, findings: Iterable[Finding]) -> list[FixResult]:
    """Mend what is safe to mend. What fails is told, and stops no other."""
    wanting = {
        one.check for one in findings if one.status in (CheckStatus.WARNING, CheckStatus.FAILED)
    }
    done: list[FixResult] = []
    for name in sorted(wanting & _fixes.keys()):
        try:
            done.extend(FixResult(name, what) for what in _fixes[name](context))
        except HostlerError as error:
            done.append(FixResult(name, f"{error.what} {error.remedy}".strip(), done=False))
        except Exception as error:
            done.append(FixResult(name, f"{type(error).__name__}: {error}", done=False))
    return done


def findings_exit_code(findings: Iterable[Finding]) -> int:
    """The exit code: 0 all well, 1 something to look at, 2 something is broken."""
    worst = {finding.status for finding in findings}
    if CheckStatus.FAILED in worst:
        return 2
    return 1 if CheckStatus.WARNING in worst else 0
