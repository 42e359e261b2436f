"""Dependencies between tasks and issues: names, cycles, and what blocks a task. Pure functions.

```
  HostlerError
  └── DependencyError       a task cannot have this dependency
      ├── BadDependency     not the name of a task or an issue, or the task itself
      └── DependencyCycle   tasks would wait for each other
```
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from hostler.errors import HostlerError
from hostler.model import RepoName
from hostler.store.dependencies import CLOSED, MISSING, OPEN, LastRun, TaskFacts
from hostler.store.runs import RunState
from hostler.store.tasks import IssueRef, TaskState


class DependencyError(HostlerError):
    """A task cannot have this dependency."""

    exit_code = 2

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


class BadDependency(DependencyError):
    """The dependency is not the name of a task or an issue, or it is the task itself."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"{name!r} cannot be a dependency: {why}.",
            "Name a task by its id (see `hostler task list`), or an issue as owner/repo#12.",
        )
        self.name = name


class DependencyCycle(DependencyError):
    """Tasks would wait for each other. `path` starts and ends with the same name."""

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(
            f"dependency cycle detected: {' -> '.join(path)}",
            "Remove one of these dependencies.",
        )
        self.path = path


# Which name waits for which. An issue waits for its tasks.
DependencyGraph = Mapping[str, tuple[str, ...]]

MAX_DEPENDENCIES = 100
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def parse_dependencies(
    values: Iterable[str], own: Collection[str] | str | None = None, repo: RepoName | None = None
) -> tuple[str, ...]:
    """Return dependencies in the form in which they are stored. `own`: names of the task itself."""
    ours = {own} if isinstance(own, str) else set(own or ())
    parts = (part.strip() for value in values for part in value.split(","))
    names = dict.fromkeys(_parse_name(part, repo) for part in parts if part)
    for name in names:
        if name in ours:
            raise BadDependency(name, "it is the task itself")
    if len(names) > MAX_DEPENDENCIES:
        raise BadDependency(
            list(names)[MAX_DEPENDENCIES], f"a task can have at most {MAX_DEPENDENCIES}"
        )
    return tuple(names)


def _parse_name(text: str, repo: RepoName | None) -> str:
    if text.startswith("#") and repo is None:
        raise BadDependency(text, "its repository is not named")
    ref = IssueRef.parse(f"{repo}{text}" if text.startswith("#") else text)
    if ref is not None:
        return str(ref)
    if not _TASK_ID.fullmatch(text):
        raise BadDependency(text, "it is neither a task's id nor an issue")
    return text


def require_no_cycle(graph: DependencyGraph, task: str, depends_on: Iterable[str]) -> None:
    """Raise `DependencyCycle` if a task with these dependencies would wait for itself."""
    found = find_cycle(graph, task, depends_on)
    if found is not None:
        raise DependencyCycle(found)


def split_cycles(
    graph: DependencyGraph, task: str, depends_on: Iterable[str]
) -> tuple[tuple[str, ...], tuple[DependencyCycle, ...]]:
    """Return the dependencies that a task can have, and a cycle for each one that it cannot."""
    names = tuple(depends_on)
    found = {name: find_cycle(graph, task, (name,)) for name in names}
    kept = tuple(name for name in names if found[name] is None)
    return kept, tuple(DependencyCycle(path) for path in found.values() if path is not None)


def find_cycle(
    graph: DependencyGraph, task: str, depends_on: Iterable[str]
) -> tuple[str, ...] | None:
    """Return the shortest path from a task back to itself; of equal ones the first by name."""
    came_from: dict[str, str] = {}
    waiting = deque([task])
    edges = {**graph, task: tuple(depends_on)}
    while waiting:
        here = waiting.popleft()
        for name in edges.get(here, ()):
            if name == task:
                return _render_cycle(_trace_path(came_from, task, here))
            if name not in came_from:
                came_from[name] = here
                waiting.append(name)
    return None


def is_issue_name(name: str) -> bool:
    """Return whether a name is that of an issue. Task ids do not contain `#`."""
    return "#" in name


def _trace_path(came_from: Mapping[str, str], start: str, end: str) -> list[str]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]


def _render_cycle(path: list[str]) -> tuple[str, ...]:
    """Return a cycle for people: a task instead of the issue that leads to it."""
    before = [path[-1], *path[:-1]]
    tasks = [name for earlier, name in zip(before, path, strict=True) if not is_issue_name(earlier)]
    if is_issue_name(path[-1]):
        tasks = [tasks[-1], *tasks[:-1]]
    return (*tasks, tasks[0])


def find_root_causes(graph: DependencyGraph, hopeless_names: Collection[str]) -> dict[str, str]:
    """Return every name that leads to a hopeless one, with the nearest hopeless one."""
    dependents = _reverse_graph(graph)
    found = {name: name for name in sorted(hopeless_names)}
    waiting = deque(found)
    while waiting:
        here = waiting.popleft()
        for name in dependents.get(here, ()):
            if name not in found:
                found[name] = found[here]
                waiting.append(name)
    return found


def find_cycles(graph: DependencyGraph) -> dict[str, tuple[str, ...]]:
    """Return every name on a cycle, with the shortest cycle."""
    left = _names_on_cycles(graph)
    core = {name: tuple(n for n in graph[name] if n in left) for name in sorted(left)}
    found = {name: find_cycle(core, name, core[name]) for name in core}
    return {name: path for name, path in found.items() if path is not None}


def _names_on_cycles(graph: DependencyGraph) -> set[str]:
    """Return names that are on a cycle or lead to one: all others can be ordered."""
    dependents = _reverse_graph(graph)
    open_ends = {name: len(set(names)) for name, names in graph.items()}
    done = deque(name for name in _all_names(graph) if not open_ends.get(name))
    left = {name for name, count in open_ends.items() if count}
    while done:
        for name in dependents.get(done.popleft(), ()):
            open_ends[name] -= 1
            if not open_ends[name]:
                left.discard(name)
                done.append(name)
    return left


def _reverse_graph(graph: DependencyGraph) -> dict[str, list[str]]:
    """Return the graph with every edge reversed."""
    reversed_graph: dict[str, list[str]] = {}
    for name in sorted(graph):
        for target in dict.fromkeys(graph[name]):
            reversed_graph.setdefault(target, []).append(name)
    return reversed_graph


def _all_names(graph: DependencyGraph) -> Iterable[str]:
    return dict.fromkeys([*graph, *(name for names in graph.values() for name in names)])


# The outcome of a successful run.
SUCCESS_OUTCOME = "success"
MAX_REASON_LENGTH = 200


class DependencyState(StrEnum):
    """The state of a dependency. States of tasks have the names of `TaskState`."""

    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    PARKED = "parked"
    AWAITING_FEEDBACK = "awaiting_feedback"
    NEEDS_INPUT = "needs_input"
    BLOCKED = "blocked"
    STOPPED = "stopped"
    FAILED = "failed"
    MISSING = "missing"
    OPEN = "open"
    UNKNOWN = "unknown"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that a task waits for. `hopeless`: only a user can change it.

    `avoidable`: its remedy ends with how to do without it, which depends on the waiting task.
    """

    name: str
    state: DependencyState
    sentence: str
    remedy: str = ""
    hopeless: bool = False
    avoidable: bool = False


@dataclass(frozen=True, slots=True)
class DependencySnapshot:
    """Some tasks and everything that they depend on, directly or indirectly.

    `issues`: the tasks of each issue that has any; `states`: the last known states of the others.
    """

    tasks: Mapping[str, TaskFacts] = field(default_factory=dict)
    issues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    last_runs: Mapping[str, LastRun] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Return every name in the snapshot."""
        named = (name for task in self.tasks.values() for name in task.depends_on)
        return list(dict.fromkeys([*self.tasks, *self.issues, *self.states, *named]))


# By name, what is not ready.
BlockersByName = Mapping[str, Blocker]


def is_waiting(task: TaskFacts) -> bool:
    """Return whether dependencies can still hold a task back.

    They can until it has started or is done.
    """
    return task.attempt == 0 and task.state is not TaskState.DONE


def build_graph(snapshot: DependencySnapshot) -> DependencyGraph:
    """Return which name waits for which. Tasks that have started or are done wait for nothing."""
    waiting = {one.id: one.depends_on for one in snapshot.tasks.values() if is_waiting(one)}
    return {**snapshot.issues, **waiting}


def find_blockers(snapshot: DependencySnapshot) -> BlockersByName:
    """Return everything that is not ready, each with the root cause at the end of its chain."""
    found = {
        name: one for name in snapshot.names() if (one := _find_blocker(name, snapshot)) is not None
    }
    ways = _subgraph(build_graph(snapshot), found)
    found |= {name: _cycle_blocker(name, path) for name, path in find_cycles(ways).items()}
    roots = find_root_causes(ways, [name for name, one in found.items() if one.hopeless])
    return {name: _add_root_cause(one, found, roots) for name, one in found.items()}


def select_blockers(task: TaskFacts, blockers_by_name: BlockersByName) -> tuple[Blocker, ...]:
    """Return what holds a task back, in the order of its dependencies.

    Nothing once it has started.
    """
    if not is_waiting(task):
        return ()
    return tuple(
        _add_advice(task, blockers_by_name[name])
        for name in task.depends_on
        if name in blockers_by_name
    )


def _add_advice(task: TaskFacts, found: Blocker) -> Blocker:
    """Return a blocker with the full advice for the task that waits for it."""
    if not found.avoidable:
        return found
    advice = _advice_without(task)
    remedy = (
        f"{found.remedy}, or {advice}." if found.remedy else f"{advice[0].upper()}{advice[1:]}."
    )
    return replace(found, remedy=remedy, avoidable=False)


def _advice_without(task: TaskFacts) -> str:
    """Return how a task can do without one of its dependencies."""
    if task.issue_number is not None:
        return "remove it from the issue that depends on it (its text, or its list on GitHub)"
    again = "submit the waiting task again without --depends-on for this one"
    return f"{again}, and cancel the old one (hostler task cancel {task.id})"


def find_hopeless(
    tasks: Iterable[TaskFacts], blockers_by_name: BlockersByName
) -> dict[str, tuple[Blocker, ...]]:
    """Return unfinished tasks that can never start without a user, and why."""
    over = (TaskState.STOPPED, TaskState.FAILED)
    held = {
        one.id: select_blockers(one, blockers_by_name) for one in tasks if one.state not in over
    }
    stuck = {task: tuple(one for one in found if one.hopeless) for task, found in held.items()}
    return {task: found for task, found in stuck.items() if found}


def describe_blockers(held: Iterable[Blocker]) -> str:
    """Return a message about a task that is held back, or is no longer."""
    sentences = [one.sentence for one in held]
    if not sentences:
        return "All dependencies are ready."
    return f"Waiting for {len(sentences)}: {' '.join(sentences)}"


def has_usable_work(task: TaskFacts, last: LastRun | None) -> bool:
    """Return whether a task's work can be used before it is done: its last run succeeded."""
    if task.state in (TaskState.PARKED, TaskState.RUNNING):
        # In a folder, work that was declared done is complete: only processes have yet to exit.
        return task.finishing and task.repo_full_name is None
    if last is None or last.state is not RunState.ENDED or last.outcome != SUCCESS_OUTCOME:
        return False
    queued_again = task.state is TaskState.QUEUED and task.pr_number is not None
    return queued_again or task.state is TaskState.AWAITING_FEEDBACK


def _subgraph(graph: DependencyGraph, names: Mapping[str, Blocker]) -> DependencyGraph:
    """Return the graph of names that are not ready. Behind a hopeless one nothing else matters."""
    return {
        name: tuple(target for target in targets if target in names)
        for name, targets in graph.items()
        if name in names and not names[name].hopeless
    }


def _add_root_cause(found: Blocker, all_found: BlockersByName, roots: Mapping[str, str]) -> Blocker:
    """Return a blocker with its root cause, if that is another name and hopeless."""
    root = all_found.get(roots.get(found.name, ""), found)
    if root is found:
        return found
    sentence = f"{found.name} waits for {root.name}. {root.sentence}"
    return replace(
        found, sentence=sentence, remedy=root.remedy, hopeless=True, avoidable=root.avoidable
    )


def _cycle_blocker(name: str, path: tuple[str, ...]) -> Blocker:
    error = DependencyCycle(path)
    remedy = "Submit the tasks again without the cycle and cancel these; edit issues in it."
    return Blocker(name, DependencyState.CYCLE, f"{error.what}.", remedy, hopeless=True)


def _find_blocker(name: str, snapshot: DependencySnapshot) -> Blocker | None:
    """Return why a name is not ready, looking at it alone."""
    if is_issue_name(name):
        return _find_issue_blocker(name, snapshot)
    task = snapshot.tasks.get(name)
    if task is None:
        sentence = f"Task {name} does not exist."
        return Blocker(name, DependencyState.MISSING, sentence, hopeless=True, avoidable=True)
    if task.state is TaskState.DONE or has_usable_work(task, snapshot.last_runs.get(name)):
        return None
    return _unfinished_blocker(name, task)


def _find_issue_blocker(name: str, snapshot: DependencySnapshot) -> Blocker | None:
    tasks = [snapshot.tasks[task] for task in snapshot.issues.get(name, ())]
    if not tasks:
        return _find_untracked_issue_blocker(name, snapshot.states.get(name))
    left = [_unfinished_blocker(name, task) for task in tasks if task.state is not TaskState.DONE]
    return next((one for one in left if one.hopeless), left[0] if left else None)


def _find_untracked_issue_blocker(name: str, state: str | None) -> Blocker | None:
    if state == CLOSED:
        return None
    if state == OPEN:
        sentence = f"{name} is open and has no task here."
        remedy = "Close it, add a label"
        return Blocker(name, DependencyState.OPEN, sentence, remedy, avoidable=True)
    if state == MISSING:
        sentence = f"{name} does not exist, or Hostler's account cannot see it."
        remedy = "Give Hostler's account access"
        return Blocker(
            name, DependencyState.MISSING, sentence, remedy, hopeless=True, avoidable=True
        )
    return Blocker(name, DependencyState.UNKNOWN, f"{name} has not been checked yet.")


def _unfinished_blocker(name: str, task: TaskFacts) -> Blocker:
    why = " ".join(task.reason.split())[:MAX_REASON_LENGTH]
    state_text = _STATE_TEXTS.get(task.state, "is " + task.state.value)
    ended = task.state in (TaskState.STOPPED, TaskState.FAILED)
    sentence = f"{name} {state_text}" + (
        f": {why}" if why and task.state in _STATES_WITH_REASON else ""
    )
    sentence = sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
    remedy = _REMEDIES[task.state](task) if task.state in _REMEDIES else ""
    state = DependencyState(task.state.value)
    return Blocker(name, state, sentence, remedy, hopeless=ended, avoidable=ended)


_STATE_TEXTS = {
    TaskState.RETRYING: "will be retried",
    TaskState.AWAITING_FEEDBACK: "is waiting for review",
    TaskState.NEEDS_INPUT: "has a question",
    TaskState.STOPPED: "was stopped",
    TaskState.FAILED: "has failed",
}
# States whose reason is shown too.
_STATES_WITH_REASON = frozenset(
    {TaskState.PARKED, TaskState.BLOCKED, TaskState.STOPPED, TaskState.FAILED, TaskState.RETRYING}
)
_REMEDIES: Mapping[TaskState, Callable[[TaskFacts], str]] = {
    TaskState.AWAITING_FEEDBACK: lambda task: f"Review and merge {_pull_text(task)}.",
    TaskState.NEEDS_INPUT: lambda task: f"Answer it: hostler task show {task.id}",
    TaskState.BLOCKED: lambda task: f"Once fixed, run: hostler task resume {task.id}",
    TaskState.STOPPED: lambda task: f"Retry it (hostler task retry {task.id})",
    TaskState.FAILED: lambda task: f"Retry it (hostler task retry {task.id})",
}


def _pull_text(task: TaskFacts) -> str:
    return f"pull request #{task.pr_number}" if task.pr_number else "its pull request"
