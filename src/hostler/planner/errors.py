"""What this room refuses.

HostlerError
└── DependencyError       what a task shall wait for cannot be
    ├── BadDependency     a name that names nothing, or the task itself
    └── DependencyCycle   tasks would wait for each other
"""

from __future__ import annotations

from hostler.errors import HostlerError


class DependencyError(HostlerError):
    """What a task shall wait for cannot be. Nothing was changed."""

    exit_code = 2

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


class BadDependency(DependencyError):
    """A dependency that is no name of a task or an issue, or that names the task itself."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"{name!r} cannot be a dependency: {why}.",
            "Name a task by its id (see `hostler task list`), or an issue as owner/repo#12.",
        )
        self.name = name


class DependencyCycle(DependencyError):
    """Tasks that would wait for each other. `path` begins and ends with the same name."""

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(
            f"dependency cycle detected: {' -> '.join(path)}",
            "Leave one of these dependencies out.",
        )
        self.path = path
