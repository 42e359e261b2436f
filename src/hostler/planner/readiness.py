"""Rules of readiness: what holds a task back, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from hostler.planner.chains import blamed, circles
from hostler.planner.dependencies import Graph, is_issue
from hostler.planner.errors import DependencyCycle
from hostler.store.dependencies import CLOSED, MISSING, OPEN, LastRun, TaskFacts
from hostler.store.runs import RunState
from hostler.store.tasks import TaskState

# The outcome of a run whose agent was done.
SUCCESS = "success"
LONGEST_REASON = 200


class Standing(StrEnum):
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
    standing: Standing
    sentence: str
    remedy: str = ""
    hopeless: bool = False
    avoidable: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
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
Judged = Mapping[str, Blocker]


def awaits(task: TaskFacts) -> bool:
    """Whether dependencies can still hold a task: it is not done, and has not begun."""
    return task.attempt == 0 and task.state is not TaskState.DONE


def graph(scene: Scene) -> Graph:
    """Who waits for whom. Whoever has begun, or is done, waits for nobody."""
    waiting = {one.id: one.depends_on for one in scene.tasks.values() if awaits(one)}
    return {**scene.issues, **waiting}


def judge(scene: Scene) -> Judged:
    """Everything in a scene that is not ready, with what is to blame at the end of its chain."""
    found = {name: one for name in scene.names() if (one := _alone(name, scene)) is not None}
    ways = _among(graph(scene), found)
    found |= {name: _circle(name, path) for name, path in circles(ways).items()}
    roots = blamed(ways, [name for name, one in found.items() if one.hopeless])
    return {name: _behind(one, found, roots) for name, one in found.items()}


def blockers(task: TaskFacts, judged: Judged) -> tuple[Blocker, ...]:
    """What holds a task back, in the order in which it names them; nothing once it has begun."""
    if not awaits(task):
        return ()
    return tuple(_advised(task, judged[name]) for name in task.depends_on if name in judged)


def _advised(task: TaskFacts, found: Blocker) -> Blocker:
    """A blocker with the whole advice for the one that waits for it."""
    if not found.avoidable:
        return found
    way = _without(task)
    remedy = f"{found.remedy}, or {way}." if found.remedy else f"{way[0].upper()}{way[1:]}."
    return replace(found, remedy=remedy, avoidable=False)


def _without(task: TaskFacts) -> str:
    """How a task can do without something that it waits for."""
    if task.issue_number is not None:
        return "take it out of the issue that waits for it: its text, or its list on GitHub"
    again = "submit the task that waits again without --depends-on for this one"
    return f"{again}, and cancel the old one (hostler task cancel {task.id})"


def hopeless(tasks: Iterable[TaskFacts], judged: Judged) -> dict[str, tuple[Blocker, ...]]:
    """Tasks that can never proceed by themselves, and why. Those that are over do not want to."""
    over = (TaskState.STOPPED, TaskState.FAILED)
    held = {one.id: blockers(one, judged) for one in tasks if one.state not in over}
    stuck = {task: tuple(one for one in found if one.hopeless) for task, found in held.items()}
    return {task: found for task, found in stuck.items() if found}


def in_words(held: Iterable[Blocker]) -> str:
    """What to tell about a task that is held, or is held no longer."""
    sentences = [one.sentence for one in held]
    if not sentences:
        return "Everything that it depends on is ready."
    return f"It waits for {len(sentences)}: {' '.join(sentences)}"


def has_work(task: TaskFacts, last: LastRun | None) -> bool:
    """Whether a task's work is there though it is not over: its last run went well, and stands."""
    if task.state in (TaskState.PARKED, TaskState.RUNNING):
        # In a folder, nothing is left to us once somebody said that it is done: its agent is about
        # to leave, or its children are.
        return task.finishing and task.repo_full_name is None
    if last is None or last.state is not RunState.ENDED or last.outcome != SUCCESS:
        return False
    queued_again = task.state is TaskState.QUEUED and task.pr_number is not None
    return queued_again or task.state is TaskState.AWAITING_FEEDBACK


def _among(whole: Graph, names: Mapping[str, Blocker]) -> Graph:
    """The part of a graph between names that are not ready. Behind a hopeless one, all is moot."""
    return {
        name: tuple(target for target in targets if target in names)
        for name, targets in whole.items()
        if name in names and not names[name].hopeless
    }


def _behind(found: Blocker, all_found: Judged, roots: Mapping[str, str]) -> Blocker:
    """A blocker with what is to blame for it, if that is another and past waiting."""
    root = all_found.get(roots.get(found.name, ""), found)
    if root is found:
        return found
    sentence = f"{found.name} waits for {root.name}. {root.sentence}"
    return replace(
        found, sentence=sentence, remedy=root.remedy, hopeless=True, avoidable=root.avoidable
    )


def _circle(name: str, path: tuple[str, ...]) -> Blocker:
    error = DependencyCycle(path)
    remedy = "Submit them again without the circle, and cancel these; edit issues that are in it."
    return Blocker(name, Standing.CYCLE, f"{error.what}.", remedy, hopeless=True)


def _alone(name: str, scene: Scene) -> Blocker | None:
    """Why a name is not ready, by itself alone."""
    if is_issue(name):
        return _issue(name, scene)
    task = scene.tasks.get(name)
    if task is None:
        sentence = f"There is no task {name}."
        return Blocker(name, Standing.MISSING, sentence, hopeless=True, avoidable=True)
    if task.state is TaskState.DONE or has_work(task, scene.last_runs.get(name)):
        return None
    return _unfinished(name, task)


def _issue(name: str, scene: Scene) -> Blocker | None:
    tasks = [scene.tasks[task] for task in scene.issues.get(name, ())]
    if not tasks:
        return _without_task(name, scene.states.get(name))
    left = [_unfinished(name, task) for task in tasks if task.state is not TaskState.DONE]
    return next((one for one in left if one.hopeless), left[0] if left else None)


def _without_task(name: str, state: str | None) -> Blocker | None:
    if state == CLOSED:
        return None
    if state == OPEN:
        sentence = f"{name} is open, and nobody works on it here."
        remedy = "Close it, give it a label"
        return Blocker(name, Standing.OPEN, sentence, remedy, avoidable=True)
    if state == MISSING:
        sentence = f"{name} does not exist, or our account cannot see it."
        remedy = "Let our account see it"
        return Blocker(name, Standing.MISSING, sentence, remedy, hopeless=True, avoidable=True)
    return Blocker(name, Standing.UNKNOWN, f"{name} has not been looked at yet.")


def _unfinished(name: str, task: TaskFacts) -> Blocker:
    why = " ".join(task.reason.split())[:LONGEST_REASON]
    words = _SENTENCES.get(task.state, "is " + task.state.value)
    ended = task.state in (TaskState.STOPPED, TaskState.FAILED)
    told = f"{name} {words}" + (f": {why}" if why and task.state in _EXPLAINED else "")
    sentence = told if told.endswith((".", "!", "?")) else f"{told}."
    remedy = _REMEDIES[task.state](task) if task.state in _REMEDIES else ""
    standing = Standing(task.state.value)
    return Blocker(name, standing, sentence, remedy, hopeless=ended, avoidable=ended)


_SENTENCES = {
    TaskState.RETRYING: "is about to be tried again",
    TaskState.AWAITING_FEEDBACK: "awaits its review",
    TaskState.NEEDS_INPUT: "has a question",
    TaskState.STOPPED: "was stopped",
    TaskState.FAILED: "has failed",
}
# States whose reason says more than the state.
_EXPLAINED = frozenset(
    {TaskState.PARKED, TaskState.BLOCKED, TaskState.STOPPED, TaskState.FAILED, TaskState.RETRYING}
)
_REMEDIES: Mapping[TaskState, Callable[[TaskFacts], str]] = {
    TaskState.AWAITING_FEEDBACK: lambda task: f"Review and merge {_pull(task)}.",
    TaskState.NEEDS_INPUT: lambda task: f"Answer it: hostler task show {task.id}",
    TaskState.BLOCKED: lambda task: f"When that is mended: hostler task resume {task.id}",
    TaskState.STOPPED: lambda task: f"Begin it anew (hostler task retry {task.id})",
    TaskState.FAILED: lambda task: f"Begin it anew (hostler task retry {task.id})",
}


def _pull(task: TaskFacts) -> str:
    return f"pull request #{task.pr_number}" if task.pr_number else "its pull request"
