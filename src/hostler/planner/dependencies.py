"""Dependencies between tasks and issues: names, cycles, and what blocks a task. Pure functions.

HostlerError
└── DependencyError       a task cannot have this dependency
    ├── BadDependency     not the name of a task or an issue, or the task itself
    └── DependencyCycle   tasks would wait for each other
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


# Who waits for whom, by names. An issue leads to its tasks.
DependencyGraph = Mapping[str, tuple[str, ...]]

MAX_DEPENDENCIES = 100
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def parse_dependencies(
    values: Iterable[str], own: Collection[str] | str | None = None, repo: RepoName | None = None
) -> tuple[str, ...]:
    """Dependencies in the form in which they are stored. `own`: names of the task itself."""
    ours = {own} if isinstance(own, str) else set(own or ())
    parts = (part.strip() for value in values for part in value.split(","))
    names = dict.fromkeys(_parse_name(part, repo) for part in parts if part)
    for name in names:
        if name in ours:
            raise BadDependency(name, "it is the task itself")
    if len(names) > MAX_DEPENDENCIES:
        raise BadDependency(
            list(names)[MAX_DEPENDENCIES], f"{MAX_DEPENDENCIES} are the most that one task can have"
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
    """Raise if a task that waited for these would wait for itself."""
    found = find_cycle(graph, task, depends_on)
    if found is not None:
        raise DependencyCycle(found)


def split_cycles(
    graph: DependencyGraph, task: str, depends_on: Iterable[str]
) -> tuple[tuple[str, ...], tuple[DependencyCycle, ...]]:
    """Those that a task can wait for, and a cycle for each one that it cannot."""
    names = tuple(depends_on)
    found = {name: find_cycle(graph, task, (name,)) for name in names}
    kept = tuple(name for name in names if found[name] is None)
    return kept, tuple(DependencyCycle(path) for path in found.values() if path is not None)


def find_cycle(
    graph: DependencyGraph, task: str, depends_on: Iterable[str]
) -> tuple[str, ...] | None:
    """The shortest way from a task back to itself; of equal ones, the first by order of names."""
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
    """Whether a name is that of an issue; no task's id has this letter."""
    return "#" in name


def _trace_path(came_from: Mapping[str, str], start: str, end: str) -> list[str]:
    way = [end]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _render_cycle(way: list[str]) -> tuple[str, ...]:
    """A circle as it is told: an issue stands for the task that it leads to."""
    before = [way[-1], *way[:-1]]
    told = [name for earlier, name in zip(before, way, strict=True) if not is_issue_name(earlier)]
    if is_issue_name(way[-1]):
        told = [told[-1], *told[:-1]]
    return (*told, told[0])


def find_root_causes(graph: DependencyGraph, dead: Collection[str]) -> dict[str, str]:
    """Every name that leads to a dead one, with the nearest of them; dead ones with themselves."""
    behind = _reverse_graph(graph)
    found = {name: name for name in sorted(dead)}
    waiting = deque(found)
    while waiting:
        here = waiting.popleft()
        for name in behind.get(here, ()):
            if name not in found:
                found[name] = found[here]
                waiting.append(name)
    return found


def find_cycles(graph: DependencyGraph) -> dict[str, tuple[str, ...]]:
    """Every name from which a way leads back to it, with the shortest such way."""
    left = _names_on_cycles(graph)
    core = {name: tuple(n for n in graph[name] if n in left) for name in sorted(left)}
    found = {name: find_cycle(core, name, core[name]) for name in core}
    return {name: path for name, path in found.items() if path is not None}


def _names_on_cycles(graph: DependencyGraph) -> set[str]:
    """Names that are on a circle or lead to one: all others can be done one after another."""
    behind = _reverse_graph(graph)
    open_ends = {name: len(set(names)) for name, names in graph.items()}
    done = deque(name for name in _all_names(graph) if not open_ends.get(name))
    left = {name for name, count in open_ends.items() if count}
    while done:
        for name in behind.get(done.popleft(), ()):
            open_ends[name] -= 1
            if not open_ends[name]:
                left.discard(name)
                done.append(name)
    return left


def _reverse_graph(graph: DependencyGraph) -> dict[str, list[str]]:
    """The same with every arrow the other way round."""
    turned: dict[str, list[str]] = {}
    for name in sorted(graph):
        for target in dict.fromkeys(graph[name]):
            turned.setdefault(target, []).append(name)
    return turned


def _all_names(graph: DependencyGraph) -> Iterable[str]:
    return dict.fromkeys([*graph, *(name for names in graph.values() for name in names)])


# The outcome of a run whose agent was done.
SUCCESS_OUTCOME = "success"
MAX_REASON_LENGTH = 200


class DependencyState(StrEnum):
    """Where something that a task depends on is. Those of tasks are named as their states."""

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
    """One thing that holds a task back. Hopeless: nothing changes it but a person.

    `avoidable`: its remedy goes on with how to do without it, which depends on who waits.
    """

    name: str
    standing: DependencyState
    sentence: str
    remedy: str = ""
    hopeless: bool = False
    avoidable: bool = False


@dataclass(frozen=True, slots=True)
class DependencySnapshot:
    """Some tasks, everything that they depend on, and what that depends on in turn.

    `issues`: the tasks of each issue that has any; `states`: what was seen of the others.
    """

    tasks: Mapping[str, TaskFacts] = field(default_factory=dict)
    issues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    last_runs: Mapping[str, LastRun] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Everything that is in the scene, or named in it."""
        named = (name for task in self.tasks.values() for name in task.depends_on)
        return list(dict.fromkeys([*self.tasks, *self.issues, *self.states, *named]))


# By name, what is not ready.
BlockersByName = Mapping[str, Blocker]


def is_waiting(task: TaskFacts) -> bool:
    """Whether dependencies can still hold a task: it is not done, and has not begun."""
    return task.attempt == 0 and task.state is not TaskState.DONE


def build_graph(scene: DependencySnapshot) -> DependencyGraph:
    """Who waits for whom. Whoever has begun, or is done, waits for nobody."""
    waiting = {one.id: one.depends_on for one in scene.tasks.values() if is_waiting(one)}
    return {**scene.issues, **waiting}


def judge_names(scene: DependencySnapshot) -> BlockersByName:
    """Everything in a scene that is not ready, with what is to blame at the end of its chain."""
    found = {name: one for name in scene.names() if (one := _judge_name(name, scene)) is not None}
    ways = _subgraph(build_graph(scene), found)
    found |= {name: _cycle_blocker(name, path) for name, path in find_cycles(ways).items()}
    roots = find_root_causes(ways, [name for name, one in found.items() if one.hopeless])
    return {name: _add_root_cause(one, found, roots) for name, one in found.items()}


def select_blockers(task: TaskFacts, judged: BlockersByName) -> tuple[Blocker, ...]:
    """What holds a task back, in the order in which it names them; nothing once it has begun."""
    if not is_waiting(task):
        return ()
    return tuple(_add_advice(task, judged[name]) for name in task.depends_on if name in judged)


def _add_advice(task: TaskFacts, found: Blocker) -> Blocker:
    """A blocker with the whole advice for the one that waits for it."""
    if not found.avoidable:
        return found
    way = _advice_without(task)
    remedy = f"{found.remedy}, or {way}." if found.remedy else f"{way[0].upper()}{way[1:]}."
    return replace(found, remedy=remedy, avoidable=False)


def _advice_without(task: TaskFacts) -> str:
    """How a task can do without something that it waits for."""
    if task.issue_number is not None:
        return "take it out of the issue that waits for it: its text, or its list on GitHub"
    again = "submit the task that waits again without --depends-on for this one"
    return f"{again}, and cancel the old one (hostler task cancel {task.id})"


def find_hopeless(
    tasks: Iterable[TaskFacts], judged: BlockersByName
) -> dict[str, tuple[Blocker, ...]]:
    """Tasks that can never proceed by themselves, and why. Those that are over do not want to."""
    over = (TaskState.STOPPED, TaskState.FAILED)
    held = {one.id: select_blockers(one, judged) for one in tasks if one.state not in over}
    stuck = {task: tuple(one for one in found if one.hopeless) for task, found in held.items()}
    return {task: found for task, found in stuck.items() if found}


def describe_blockers(held: Iterable[Blocker]) -> str:
    """What to tell about a task that is held, or is held no longer."""
    sentences = [one.sentence for one in held]
    if not sentences:
        return "Everything that it depends on is ready."
    return f"It waits for {len(sentences)}: {' '.join(sentences)}"


def has_usable_work(task: TaskFacts, last: LastRun | None) -> bool:
    """Whether a task's work is there though it is not over: its last run went well, and stands."""
    if task.state in (TaskState.PARKED, TaskState.RUNNING):
        # In a folder, nothing is left to us once somebody said that it is done: its agent is about
        # to leave, or its children are.
        return task.finishing and task.repo_full_name is None
    if last is None or last.state is not RunState.ENDED or last.outcome != SUCCESS_OUTCOME:
        return False
    queued_again = task.state is TaskState.QUEUED and task.pr_number is not None
    return queued_again or task.state is TaskState.AWAITING_FEEDBACK


def _subgraph(whole: DependencyGraph, names: Mapping[str, Blocker]) -> DependencyGraph:
    """The part of a graph between names that are not ready. Behind a hopeless one, all is moot."""
    return {
        name: tuple(target for target in targets if target in names)
        for name, targets in whole.items()
        if name in names and not names[name].hopeless
    }


def _add_root_cause(found: Blocker, all_found: BlockersByName, roots: Mapping[str, str]) -> Blocker:
    """A blocker with what is to blame for it, if that is another and past waiting."""
    root = all_found.get(roots.get(found.name, ""), found)
    if root is found:
        return found
    sentence = f"{found.name} waits for {root.name}. {root.sentence}"
    return replace(
        found, sentence=sentence, remedy=root.remedy, hopeless=True, avoidable=root.avoidable
    )


def _cycle_blocker(name: str, path: tuple[str, ...]) -> Blocker:
    error = DependencyCycle(path)
    remedy = "Submit them again without the circle, and cancel these; edit issues that are in it."
    return Blocker(name, DependencyState.CYCLE, f"{error.what}.", remedy, hopeless=True)


def _judge_name(name: str, scene: DependencySnapshot) -> Blocker | None:
    """Why a name is not ready, by itself alone."""
    if is_issue_name(name):
        return _judge_issue(name, scene)
    task = scene.tasks.get(name)
    if task is None:
        sentence = f"There is no task {name}."
        return Blocker(name, DependencyState.MISSING, sentence, hopeless=True, avoidable=True)
    if task.state is TaskState.DONE or has_usable_work(task, scene.last_runs.get(name)):
        return None
    return _judge_unfinished(name, task)


def _judge_issue(name: str, scene: DependencySnapshot) -> Blocker | None:
    tasks = [scene.tasks[task] for task in scene.issues.get(name, ())]
    if not tasks:
        return _judge_issue_without_task(name, scene.states.get(name))
    left = [_judge_unfinished(name, task) for task in tasks if task.state is not TaskState.DONE]
    return next((one for one in left if one.hopeless), left[0] if left else None)


def _judge_issue_without_task(name: str, state: str | None) -> Blocker | None:
    if state == CLOSED:
        return None
    if state == OPEN:
        sentence = f"{name} is open, and nobody works on it here."
        remedy = "Close it, give it a label"
        return Blocker(name, DependencyState.OPEN, sentence, remedy, avoidable=True)
    if state == MISSING:
        sentence = f"{name} does not exist, or our account cannot see it."
        remedy = "Let our account see it"
        return Blocker(
            name, DependencyState.MISSING, sentence, remedy, hopeless=True, avoidable=True
        )
    return Blocker(name, DependencyState.UNKNOWN, f"{name} has not been looked at yet.")


def _judge_unfinished(name: str, task: TaskFacts) -> Blocker:
    why = " ".join(task.reason.split())[:MAX_REASON_LENGTH]
    words = _STATE_TEXTS.get(task.state, "is " + task.state.value)
    ended = task.state in (TaskState.STOPPED, TaskState.FAILED)
    told = f"{name} {words}" + (f": {why}" if why and task.state in _STATES_WITH_REASON else "")
    sentence = told if told.endswith((".", "!", "?")) else f"{told}."
    remedy = _REMEDIES[task.state](task) if task.state in _REMEDIES else ""
    standing = DependencyState(task.state.value)
    return Blocker(name, standing, sentence, remedy, hopeless=ended, avoidable=ended)


_STATE_TEXTS = {
    TaskState.RETRYING: "is about to be tried again",
    TaskState.AWAITING_FEEDBACK: "awaits its review",
    TaskState.NEEDS_INPUT: "has a question",
    TaskState.STOPPED: "was stopped",
    TaskState.FAILED: "has failed",
}
# States whose reason says more than the state.
_STATES_WITH_REASON = frozenset(
    {TaskState.PARKED, TaskState.BLOCKED, TaskState.STOPPED, TaskState.FAILED, TaskState.RETRYING}
)
_REMEDIES: Mapping[TaskState, Callable[[TaskFacts], str]] = {
    TaskState.AWAITING_FEEDBACK: lambda task: f"Review and merge {_pull_text(task)}.",
    TaskState.NEEDS_INPUT: lambda task: f"Answer it: hostler task show {task.id}",
    TaskState.BLOCKED: lambda task: f"When that is mended: hostler task resume {task.id}",
    TaskState.STOPPED: lambda task: f"Begin it anew (hostler task retry {task.id})",
    TaskState.FAILED: lambda task: f"Begin it anew (hostler task retry {task.id})",
}


def _pull_text(task: TaskFacts) -> str:
    return f"pull request #{task.pr_number}" if task.pr_number else "its pull request"
