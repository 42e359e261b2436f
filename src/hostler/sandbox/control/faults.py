"""The fault plan: which requests go wrong, when, and how."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from hostler.sandbox.state.world import InvalidInput

KINDS = ("fail_before", "fail_after", "cut", "delay", "status", "limit", "hide")
CUTS = ("before", "after", "body")


@dataclass
class Fault:
    """One rule. It passes over the first `skip` matching requests, then strikes `count` times."""

    id: int
    kind: str
    method: str = "*"
    route: str = "*"
    count: int | None = 1
    skip: int = 0
    probability: float = 1.0
    seed: int = 0
    status: int = 502
    when: str = "before"
    seconds: float = 0.0
    limit: str = "secondary"
    struck: int = 0
    passed: int = 0
    _random: random.Random = field(default_factory=random.Random, repr=False)

    def strikes(self, method: str, template: str, path: str) -> bool:
        """Return whether the fault strikes this request, and count it."""
        if self.count is not None and self.struck >= self.count:
            return False
        if self.method not in ("*", method):
            return False
        if not (fnmatchcase(template, self.route) or fnmatchcase(path, self.route)):
            return False
        if self.passed < self.skip:
            self.passed += 1
            return False
        if self._random.random() >= self.probability:
            return False
        self.struck += 1
        return True

    def as_dict(self) -> dict[str, Any]:
        """Return what the control interface shows."""
        return {name: value for name, value in vars(self).items() if name[0] != "_"}


class FaultPlan:
    """All rules, oldest first; the first that strikes decides."""

    def __init__(self) -> None:
        self._faults: dict[int, Fault] = {}
        self._next = 1

    def add(self, values: dict[str, Any]) -> Fault:
        """Add a rule from control input."""
        fault = Fault(id=self._next, **_checked(values))
        fault._random = random.Random(fault.seed)  # noqa: S311 - repeatable on purpose
        self._faults[fault.id] = fault
        self._next += 1
        return fault

    def pick(self, method: str, template: str, path: str) -> Fault | None:
        """Return the rule that hits this request, if any."""
        if not self._faults:
            return None
        for fault in self._faults.values():
            if fault.strikes(method, template, path):
                return fault
        return None

    def listed(self) -> list[dict[str, Any]]:
        """Return all rules with how often they struck."""
        return [fault.as_dict() for fault in self._faults.values()]

    def remove(self, fault_id: int | None = None) -> bool:
        """Remove one rule, or all. Return False if there was none."""
        if fault_id is None:
            self._faults.clear()
            return True
        return self._faults.pop(fault_id, None) is not None


_NUMBERS: dict[str, tuple[type, float, float]] = {
    "skip": (int, 0, 1e9),
    "probability": (float, 0, 1),
    "seed": (int, 0, 2**63),
    "status": (int, 400, 599),
    "seconds": (float, 0, 86_400),
}
_WORDS = {"kind": KINDS, "when": CUTS, "limit": ("primary", "secondary")}


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    known = {*_NUMBERS, *_WORDS, "method", "route", "count"}
    for name in values:
        if name not in known:
            raise InvalidInput(name, f"unknown; a fault has {', '.join(sorted(known))}")
    if "kind" not in values:
        raise InvalidInput("kind", f"is missing; one of {', '.join(KINDS)}")
    checked = {name: _checked_field(name, value) for name, value in values.items()}
    if checked["kind"] == "limit":
        checked.setdefault("status", 403)
        if checked["status"] not in (403, 429):
            raise InvalidInput("status", "a limit answers with 403 or 429")
    return checked


def _checked_field(name: str, value: Any) -> Any:
    if name in _WORDS:
        if value not in _WORDS[name]:
            raise InvalidInput(name, f"must be one of {', '.join(_WORDS[name])}")
        return value
    if name == "count":
        if value is not None and (type(value) is not int or value < 1):
            raise InvalidInput(name, "must be a whole number from 1, or null for always")
        return value
    if name in ("method", "route"):
        if not isinstance(value, str) or not value:
            raise InvalidInput(name, "must be a text")
        return value.upper() if name == "method" else value
    wanted, low, high = _NUMBERS[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(name, "must be a number")
    if not low <= value <= high or (wanted is int and not isinstance(value, int)):
        raise InvalidInput(name, f"must be from {low:g} to {high:g}")
    return value
