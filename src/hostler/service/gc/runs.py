"""Folders of runs: those of tasks that are over, but for the newest of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hostler.runs.run_folder import is_locked
from hostler.service.gc.folders import Aside, exists, is_ours, size_of
from hostler.service.gc.premises import Premises
from hostler.service.gc.report import Found, Kind
from hostler.service.gc.rules import RunFacts, Why, judge_run
from hostler.store.retention import OldRun, runs_before, runs_named

PAGE = 200


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs that were admitted before the limit."""

    at: Premises
    kind: Kind = Kind.RUNS

    def look(self) -> Iterator[list[Found]]:
        after = ""
        while True:
            with self.at.store.read() as tx:
                page = runs_before(tx, self.at.limit, after, PAGE)
            if not page:
                return
            yield [self._found(run) for run in page if self._is_here(run)]
            after = page[-1].run

    def remove(self, going: Sequence[Found]) -> list[Found]:
        known = {one.key: one for one in going}
        with self.at.removing() as (tx, aside):
            return [self._take(known[run.run], run, aside) for run in runs_named(tx, known)]

    def _is_here(self, run: OldRun) -> bool:
        """Whether it has a folder, and one that does not go with its task anyway."""
        return not self.at.going.has(Kind.TASKS, run.task_id) and exists(self.at.home / run.folder)

    def _found(self, run: OldRun) -> Found:
        why = self._judge(run)
        size = 0 if why else size_of(self.at.home / run.folder)
        return Found(run.run, size, why, key=run.run)

    def _take(self, found: Found, run: OldRun, aside: Aside) -> Found:
        why = self._judge(run)
        if why is None and not aside.take(self.at.home / run.folder):
            why = Why.REFUSED
        return replace(found, why=why)

    def _judge(self, run: OldRun) -> Why | None:
        folder = self.at.home / run.folder
        facts = RunFacts(
            state=run.state,
            stamps=(run.admitted_at, run.ended_at, run.task_since),
            newest=run.newest,
            locked=is_locked(folder),
            task=run.task_state,
        )
        return judge_run(facts, self.at.limit) or (
            None if is_ours(self.at.home, folder) else Why.STRANGE
        )
