"""What happens around a run: the hooks that join flows, checkouts, agents and runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hostler.agents.environment import secret_names
from hostler.agents.launch import Launch
from hostler.agents.outcomes import Outcome
from hostler.agents.prepare import prepare
from hostler.agents.verdict import DecidedBy, Verdict
from hostler.config.secrets import secret_files
from hostler.errors import HostlerError, StoreError
from hostler.flows import (
    Desk,
    Ending,
    Facts,
    Material,
    Stage,
    assignment_for,
    close_run,
    failed,
    forget,
    gather,
    still_there,
    take_back,
    with_conversation,
)
from hostler.flows.byhand import CHILDREN, so_many
from hostler.flows.ci import with_logs
from hostler.flows.closing import Rule
from hostler.flows.folder import footprint
from hostler.flows.lineage import active_children
from hostler.flows.pools import give_up_place, heed, listens
from hostler.flows.steps import Step
from hostler.flows.templates import words_at
from hostler.flows.turns import hear_in_turn
from hostler.flows.workplace import make_ready, progress
from hostler.governor import Policy
from hostler.model import EPOCH
from hostler.runs import Hooks, require_newest, verdict_of
from hostler.runs.interfaces import InTransaction
from hostler.runs.outcome import NEVER_STARTED
from hostler.runs.states import FenceLost, NotLaunched, RunError
from hostler.service.bulletin import Bulletin
from hostler.service.desks import Desks, NotWatched
from hostler.service.hand import (
    children_first,
    close_in_folder,
    failed_in_folder,
    folders_of,
    launch_in_folder,
    write_task_file,
)
from hostler.service.house import House
from hostler.service.marks import is_made, last_run, mark_of
from hostler.service.observing import Observer, nobody
from hostler.service.places import kept_by
from hostler.service.purses import Purse
from hostler.service.questions import Questions
from hostler.service.sessions import session_for
from hostler.service.speaking import has_spoken
from hostler.service.spending import Treasurer
from hostler.store import Transaction
from hostler.store.runs import Run, RunState, counted_runs, last_fence, runs_of
from hostler.store.tasks import Task, TaskState, change_task, require_task

# Why an agent is stopped when the service leaves with its agents; the task itself is not stopped.
LEAVING = "the service is leaving"
SCOPES = ("outbox", "tasks")


class Defect(HostlerError):
    """Something broke that should not. The log has the details."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"Hostler has a defect: {type(error).__name__}: {error}",
            safe="What the agent did is in its checkout.",
            remedy="Please report it, with the log of today.",
        )


class Work:
    """Launches and finishes runs for all repositories."""

    def __init__(
        self,
        house: House,
        desks: Desks,
        bulletin: Bulletin,
        questions: Questions,
        *,
        observe: Observer = nobody,
        broke: Callable[[Exception], None] = lambda _: None,
        spent: Callable[[str, Purse], None] = lambda _task, _purse: None,
        refused: Callable[[str, str], None] = lambda _repo, _why: None,
        policy: Callable[[], Policy] = Policy,
    ) -> None:
        self._house = house
        self._desks = desks
        self._bulletin = bulletin
        self._questions = questions
        self._treasurer = Treasurer(house, bulletin, spent)
        self._observe = observe
        self._broke = broke
        self._refused = refused
        self._policy = policy

    def hooks(self) -> Hooks:
        """For the supervisor of runs."""
        return Hooks(
            self.launch,
            self.finish,
            release=lambda tx, run: give_up_place(tx, run, self._policy()),
            requeue=self.requeue,
            heard=lambda tx, run, heard: heed(tx, run, heard, self._policy()),
            listens=lambda run, heard: listens(run, heard, self._policy()),
            scopes=SCOPES,
        )

    def launch(self, run: Run) -> Launch:
        """Checkout and prompt. What goes wrong is stored for the task, and ends the run."""
        task = self._task_of(run)
        if task.state is not TaskState.RUNNING:
            raise NotLaunched(Outcome.INTERRUPTED, f"The task is {task.state}.")
        self._require_undone(run, task)
        in_folder = task.repo_full_name is None
        desk, task = (None, task) if in_folder else self._at_desk(task)
        if desk is not None and (why := misplaced(desk, task)):
            raise NotLaunched(Outcome.CONFIG, why)
        try:
            if desk is None:
                launch, seen = launch_in_folder(self._house, run, task), footprint(Path(task.cwd))
            else:
                launch, seen = self._launch(desk, run, task), progress(desk, task)
            self._note_start(run, seen)
            return launch
        except (StoreError, RunError):
            raise
        except Exception as error:
            told = self._told(error)
            if desk is None:
                self._store(failed_in_folder(self._house, task, told), run)
            else:
                self._store(failed(desk, task, told), run)
            raise NotLaunched(Outcome.CONFIG, told.what) from error

    def finish(self, run: Run, verdict: Verdict) -> InTransaction:
        """From an agent's end to what is stored about it."""
        task = self._task_of(run)
        # Its agent says nothing more; and this is repeated until the end of the run is stored.
        self._questions.carry_rest(task)
        if _was_leaving(run) and task.state is TaskState.RUNNING:
            return self.requeue
        task = self._with_words(run, task)
        self._treasurer.look(task)
        ending = self._ending(task, verdict, run)

        def store(tx: Transaction, ended: Run) -> None:
            # Somebody may have asked for its end since: nothing starts after that.
            if _was_leaving(ended) and not _was_leaving(run):
                self.requeue(tx, ended)
            else:
                self._keep_agent(tx, ended)
                ending.store(tx)

        return store

    def _task_of(self, run: Run) -> Task:
        """A run's task, under the name that its repository has now."""
        with self._house.store.read() as tx:
            require_ours(tx, run)
            task = require_task(tx, run.task_id)
        leaving = _was_leaving(run) and task.state is TaskState.RUNNING
        if leaving or task.repo_full_name is None or task.project in self._desks.ready():
            return task
        # What is stored of a renamed repository is carried over when its desk is made.
        self._desks.of(task.project)
        with self._house.store.read() as tx:
            return require_task(tx, run.task_id)

    def _at_desk(self, task: Task) -> tuple[Desk, Task]:
        """The desk of a task's project, and the task under the name its repository has now."""
        desk = self._desks.of(task.project)
        with self._house.store.read() as tx:
            present = require_task(tx, task.id)
        return desk, replace(task, repo_full_name=present.repo_full_name)

    def _with_words(self, run: Run, task: Task) -> Task:
        """The task, with what its agent was told on the bus as words of this turn."""
        said = self._bulletin.heard_by(run, task) if task.repo_full_name else []
        if not said:
            return task
        with self._house.store.write(*SCOPES) as tx:
            require_ours(tx, run)
            return hear_in_turn(tx, require_task(tx, task.id), said)

    def requeue(self, tx: Transaction, run: Run) -> None:
        """The task goes back to its old place, as if this run had not been."""
        task = self._keep_agent(tx, run)
        if task.progress and not counted_runs(tx, task.id):
            # What was noted before an agent that then never began: whoever may can begin it.
            task = change_task(tx, task, replace(task, progress=""))
        if run.session and run.session != task.session:
            # Its conversation has begun, and goes on.
            task = change_task(tx, task, replace(task, session=run.session))
        take_back(tx, task)

    def _keep_agent(self, tx: Transaction, run: Run) -> Task:
        """A task stays with the agent that worked on it, also if that was a fallback."""
        task = require_task(tx, run.task_id)
        whose = kept_by(self._house.settings, task, run.agent) if run.counted else task.agent
        return task if whose == task.agent else change_task(tx, task, replace(task, agent=whose))

    def finish_again(self, task: Task) -> None:
        """Our own part of a task whose agent was done: nothing else is repeated."""
        with self._house.store.read() as tx:
            last = last_run(tx, task.id)
            late = len(active_children(tx, task.id)) if task.blockers == CHILDREN else 0
        verdict = mark_of(self._house, task, last) or _said(last)
        if verdict is None:
            # It was said to run, and there is nothing to show for it: it goes back to its place.
            with self._house.store.write(*SCOPES) as tx:
                take_back(tx, require_task(tx, task.id))
            return
        self._store(self._ending(task, verdict, last), last)
        if late:
            self._bulletin.warning(task, f"It is done, though {so_many(late)} of it still at work.")

    def _require_undone(self, run: Run, task: Task) -> None:
        """A task by hand that is marked as done needs no agent; on a pull request it may again."""
        with self._house.store.read() as tx:
            found = mark_of(self._house, task, last_run(tx, task.id, but=run.run))
        if found is not None:
            # The run ends in the way of all others, and its task with it.
            raise NotLaunched(found.outcome, found.why, found.decided_by)

    def _note_start(self, run: Run, seen: str) -> None:
        """What is there before the agent begins: only what changes after that is its progress."""
        with self._house.store.write(*SCOPES) as tx:
            require_ours(tx, run)
            task = require_task(tx, run.task_id)
            if seen and seen != task.progress:
                change_task(tx, task, replace(task, progress=seen))

    def _store(self, ending: Ending, run: Run | None) -> None:
        with self._house.store.write(*SCOPES) as tx:
            if run is not None:
                require_ours(tx, run)
            ending.store(tx)

    def _launch(self, desk: Desk, run: Run, task: Task) -> Launch:
        with self._house.store.read() as tx:
            task = replace(task, session=session_for(task, run, runs_of(tx, task.id)))
        material, task = self._material(desk, task)
        ready = make_ready(desk, task)
        words = words_at(desk.mirror, ready.base)
        for problem in words.problems:
            self._refused(str(desk.watch.repo), problem)
        folders = folders_of(self._house, run, desk.checkout(task).path)
        settings = self._house.settings
        work = assignment_for(
            task,
            material,
            run.run,
            folders,
            desk.settings,
            desk.limits,
            settings.runtime.stop_grace_seconds,
            words,
        )
        work = replace(work, shared=(desk.mirror.path,), private=secret_files(settings))
        _forget_done(work.done_file)
        agent = settings.agent.get(run.agent)
        if agent is None:
            raise NotWatched(f"There is no agent {run.agent} in the settings any more.")
        if task.by_hand:
            write_task_file(folders.task_dir, task)
        seen = agent.model_copy(update={"env": [*agent.env, *task.env]})
        return prepare(seen, work, self._house.environment, secret_names(settings))

    def _material(self, desk: Desk, task: Task) -> tuple[Material, Task]:
        """What the turn is about, as far as it was not taken back; and the task after that."""
        forge = self._house.hub.repo(task.repo)
        with self._house.store.read() as tx:
            material = gather(tx, task)
        material, gone = still_there(forge, material)
        if gone:
            with self._house.store.write(*SCOPES) as tx:
                task = forget(tx, require_task(tx, task.id), gone)
            if task.state is not TaskState.RUNNING:
                raise NotLaunched(Outcome.INTERRUPTED, task.reason)
        if material.failures:
            lines = self._house.settings.tasks.ci_log_tail_lines
            material = replace(material, failures=with_logs(forge, material.failures, lines))
        if task.by_hand:
            return material, task
        said = [*forge.thread(task.number)]
        if task.pr_number is not None and not task.session:
            # Nobody remembers what was said there: the prompt does.
            said += forge.thread(task.pr_number)
        return with_conversation(material, desk.watch, said), task

    def _ending(self, task: Task, verdict: Verdict, run: Run | None) -> Ending:
        waiting = children_first(self._house, task, verdict)
        if waiting is not None:
            return waiting
        if run is None or self._has_nothing_to_bring_in(task, verdict):
            return close_in_folder(self._house, task, verdict, run)

        def permit() -> None:
            with self._house.store.read() as tx:
                require_ours(tx, run)

        desk, task = self._at_desk(task)
        if why := misplaced(desk, task):
            return Ending(task.id, stopping(why), Facts(EPOCH))
        desk = replace(desk, permit=permit)

        def observe(stage: Stage) -> None:
            self._observe(stage.value, run.run)

        try:
            spoke = has_spoken(self._house.home, run)
            return close_run(desk, task, verdict, run.session or "", observe, spoke=spoke)
        except (StoreError, FenceLost):
            raise
        except Exception as error:
            return failed(desk, task, self._told(error), Facts(EPOCH, finishing=True))

    def _has_nothing_to_bring_in(self, task: Task, verdict: Verdict) -> bool:
        """In a folder, work stays where it is; what was marked before it began has none."""
        if task.repo_full_name is None:
            return True
        marked = task.by_hand and verdict.decided_by is DecidedBy.DONE
        return marked and not is_made(self._house, task)

    def _told(self, error: Exception) -> HostlerError:
        """An error for people. What was not foreseen is a defect, and goes to the log."""
        if isinstance(error, HostlerError):
            return error
        self._broke(error)
        return Defect(error)


def misplaced(desk: Desk, task: Task) -> str:
    """Why nothing of a task may be brought to its project's desk; empty if it may."""
    if str(desk.watch.repo) == task.repo_full_name:
        return ""
    return f"[repo.{task.project}] means {desk.watch.repo} now, not {task.repo_full_name}."


def stopping(why: str) -> Rule:
    """The end of a task whose work belongs nowhere any more; its checkout stays."""

    def rule(_tx: Transaction, present: Task, _facts: Facts) -> Step:
        if present.state is not TaskState.RUNNING:
            return Step(present)
        return Step(replace(present, state=TaskState.STOPPED, reason=why, finishing=False))

    return rule


def require_ours(tx: Transaction, run: Run) -> None:
    """Raise if somebody has gone on with the task: a service that was replaced changes nothing."""
    if run.state is not RunState.ENDED:
        require_newest(tx, run)
    elif last_fence(tx, run.task_id) != run.fence:
        raise FenceLost(run.run, run.fence, "its task's last run", "there is a later one")
    elif (task := require_task(tx, run.task_id)).state is not TaskState.RUNNING:
        raise FenceLost(run.run, run.fence, "all that its task waits for", f"it is {task.state}")


def _said(run: Run | None) -> Verdict | None:
    """What a run came to, if there was an agent or a reason for none."""
    return None if run is None or run.outcome == NEVER_STARTED else verdict_of(run)


def _was_leaving(run: Run) -> bool:
    return run.stop_why == LEAVING


def _forget_done(file: Path) -> None:
    """DONE of an earlier turn says nothing about this one."""
    with suppress(FileNotFoundError, IsADirectoryError):
        file.unlink()
