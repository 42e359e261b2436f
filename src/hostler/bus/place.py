"""Which bus is meant, and who speaks on it from here: by names, and by a run's environment."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostler.bus.errors import BadMessage, BadRequest
from hostler.bus.message import Sender, is_name, is_person

FILE_NAME = "bus.jsonl"


def project_bus_path(home: Path, project: str) -> Path:
    """The file of a project's bus."""
    return home / "projects" / _checked(project, "project") / FILE_NAME


def task_bus_path(home: Path, project: str, task: str) -> Path:
    """The file of a task's bus."""
    folder = project_bus_path(home, project).parent
    return folder / "tasks" / _checked(task, "task") / FILE_NAME


def projects_with(home: Path, task: str) -> list[str]:
    """The projects that have a task of this name."""
    name = _checked(task, "task")
    found = (home / "projects").glob(f"*/tasks/{name}")
    return sorted(folder.parents[1].name for folder in found if folder.is_dir())


@dataclass(frozen=True, slots=True)
class Place:
    """A bus by its names; without a task it is the project's."""

    home: Path
    project: str
    task: str = ""

    @property
    def path(self) -> Path:
        """Its file."""
        if self.task:
            return task_bus_path(self.home, self.project, self.task)
        return project_bus_path(self.home, self.project)

    @property
    def exists(self) -> bool:
        """Whether there is such a task or project."""
        return self.path.parent.is_dir()

    def __str__(self) -> str:
        of_project = f"project {self.project}"
        return f"task {self.task} of {of_project}" if self.task else of_project


def place_meant(home: Path, variables: Mapping[str, str], project: str, task: str) -> Place:
    """The bus that these names mean, here; what is not named comes from the run we are in."""
    ours = variables.get("HOSTLER_PROJECT", "")
    if project:
        return Place(home, project, task)
    if task:
        return Place(home, _project_with(home, task, ours), task)
    if not ours:
        raise BadRequest(
            "Which bus is meant? There is no run here that would say so.",
            "Name it: --task TASK for a task's bus, --project PROJECT for a project's.",
        )
    return Place(home, ours, variables.get("HOSTLER_TASK", ""))


def _project_with(home: Path, task: str, ours: str) -> str:
    found = projects_with(home, task)
    if ours and (ours in found or not found):
        return ours
    if len(found) != 1:
        several = f"The projects {', '.join(found)} have a task {task} each."
        raise BadRequest(
            several if found else f"No project has a task {task}.",
            "Name the project too: --project PROJECT.",
        )
    return found[0]


def sender_here(variables: Mapping[str, str]) -> Sender:
    """Whoever calls us: the agent of a run, or else the person at the machine."""
    run = variables.get("HOSTLER_RUN", "")
    if not run:
        return Sender.person(_user())
    try:
        task, project = variables.get("HOSTLER_TASK", ""), variables.get("HOSTLER_PROJECT", "")
        return Sender.agent(run, task, project)
    except ValueError as error:
        raise BadMessage(
            f"The environment names no run: {error}.",
            "HOSTLER_RUN, HOSTLER_TASK and HOSTLER_PROJECT are set by Hostler: leave them so.",
        ) from error


def _user() -> str:
    # Not from $USER, which anybody can set.
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = ""
    return name if is_person(name) else f"uid {os.getuid()}"


def _checked(name: str, what: str) -> str:
    if not is_name(name):
        raise BadRequest(
            f"{name[:60]!r} cannot be the name of a {what}.",
            "Names have letters, digits, '.', '_' and '-', and begin with a letter or digit.",
        )
    return name
