"""What is done beside admission: dead leases, learned caps, blockers, questions, checkouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress

from hostler.clock import Clock
from hostler.governor import look_around, prune
from hostler.planner import News, in_words
from hostler.service.bulletin import Bulletin
from hostler.service.cleaning import clean_up, leftovers
from hostler.service.desks import Desks
from hostler.service.house import House
from hostler.service.journal import Journal
from hostler.service.learned_caps import LearnedCaps
from hostler.service.marks import Marks
from hostler.service.needs import note_needs
from hostler.service.orchestrator import Look
from hostler.service.policies import Policies
from hostler.service.questions import Questions
from hostler.service.recording import Recorder
from hostler.store.repositories import Polls
from hostler.store.tasks import Task, find_task

PRUNE_SECONDS = 60.0
CARRY_SECONDS = 2.0
MARK_SECONDS = 2.0


class Chores:
    """Called once a turn; whatever may take its time goes to an I/O thread."""

    def __init__(
        self,
        house: House,
        desks: Desks,
        bulletin: Bulletin,
        questions: Questions,
        journal: Journal,
        io: Executor,
        clock: Clock,
        policies: Policies,
    ) -> None:
        self._house = house
        self._desks = desks
        self._bulletin = bulletin
        self._journal = journal
        self._io = io
        self._clock = clock
        self._policies = policies
        self._caps = LearnedCaps(house.store, policies, journal)
        self._recorder = Recorder(house.store, policies)
        self._questions = questions
        self._begun = False
        self._marks = Marks(house)
        self._asking = self._marking = False
        self._prune_at = self._carry_at = self._mark_at = clock.monotonic()
        self._leaving = False

    def do(self) -> None:
        """Everything that is due."""
        self._prune()
        self._caps.look()
        self._tell_needs()
        self._carry_questions()
        self._heed_marks()

    def seconds_left(self) -> float:
        """Until something is due by itself."""
        now = self._clock.monotonic()
        waits = [self._prune_at - now]
        if self._asking:
            waits.append(self._carry_at - now)
        if self._marking:
            waits.append(self._mark_at - now)
        return max(min(waits), 0.0)

    def after(self, look: Look) -> None:
        """What follows from a look at a repository: words for agents, checkouts to remove."""
        if look.found is None:
            return
        if look.found.taken.heard:
            self._submit(self._bulletin.said, look.found.taken.heard)
        for name in look.found.taken.changed:
            with self._house.store.read() as tx:
                task = find_task(tx, name)
            if task is not None and task.over:
                self._submit(self._clean, task)

    def tell_clear(self, task: Task) -> None:
        """What a task waited for is ready, and it has begun."""
        self._submit(self._bulletin.fact, task, in_words(()))

    def record(self, polls: Mapping[str, Polls]) -> None:
        """Write down how pools are, and these looks."""
        self._submit(self._recorder.record, polls)

    def clean_leftovers(self) -> None:
        """Checkouts that an earlier service could not remove."""

        def clean_all() -> None:
            for task in leftovers(self._house):
                self._clean(task)

        self._submit(clean_all)

    def leave(self) -> None:
        """Begin nothing any more."""
        self._leaving = True

    def _prune(self) -> None:
        """Once a minute: what the dead held is free, and what the living hold is seen."""
        now = self._clock.monotonic()
        if now < self._prune_at:
            return
        self._prune_at = now + PRUNE_SECONDS
        self._policies.tidy()
        here, policy = look_around(), self._policies.current()
        with self._house.store.write("admission", relaxed=True) as tx:
            prune(tx, policy, here)

    def _tell_needs(self) -> None:
        """Say on the bus of a task what it waits for, when that changes."""
        for told in note_needs(self._house.store):
            tell = self._bulletin.fact if told.news is News.CLEAR else self._bulletin.progress
            self._submit(tell, told.task, told.text)

    def _carry_questions(self) -> None:
        """While agents of issues are at work, their buses are looked at every two seconds."""
        now = self._clock.monotonic()
        if not self._begun:
            self._begun = True
            self._submit(self._questions.carry_unfinished)
        self._asking = bool(self._questions.asking())
        if now < self._carry_at or not self._asking:
            return
        self._carry_at = now + CARRY_SECONDS
        self._submit(self._questions.carry)

    def _heed_marks(self) -> None:
        """While tasks by hand wait, their marks are looked at every two seconds."""
        now = self._clock.monotonic()
        self._marking = self._marks.wanted()
        if now < self._mark_at or not self._marking:
            return
        self._mark_at = now + MARK_SECONDS
        self._submit(self._marks.look)

    def _clean(self, task: Task) -> None:
        if not self._leaving:
            clean_up(self._house, self._desks, task, self._journal.cleaned)

    def _submit(self, act: Callable[..., object], *words: object) -> None:
        def guarded() -> None:
            try:
                act(*words)
            except Exception as error:  # a chore that breaks is no reason to stop working
                self._journal.broke(error)

        with suppress(RuntimeError):  # the executor is closed: we are leaving
            self._io.submit(guarded)
