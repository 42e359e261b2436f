"""What goes wrong: kill -9 of services, shims and agents, and a GitHub that fails."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from soak_town import OWNER, Town, ended

from hostler.shim import processes
from hostler.store.runs import Run, live_runs

# Paths as the service asks for them: people use others, and are spared.
ANY = f"/repos/{OWNER}/*"
COMMENTS, PULLS, REPLIES = f"{ANY}/issues/*/comments", f"{ANY}/pulls", f"{ANY}/replies"
EDITS = f"{ANY}/issues/comments/*"
# Longer than the service waits for an answer.
LONG = 2.5
FAULTS: tuple[dict[str, Any], ...] = (
    {"kind": "fail_before", "method": "GET", "route": ANY, "status": 502},
    {"kind": "status", "method": "GET", "route": ANY, "status": 503},
    {"kind": "cut", "when": "before", "method": "GET", "route": ANY},
    {"kind": "cut", "when": "body", "method": "GET", "route": ANY},
    {"kind": "delay", "seconds": 0.3, "method": "GET", "route": ANY},
    {"kind": "delay", "seconds": LONG, "method": "GET", "route": ANY},
    {"kind": "limit", "status": 403, "method": "GET", "route": ANY},
    {"kind": "limit", "status": 429, "method": "POST", "route": ANY},
    *(
        {**fault, "method": "POST", "route": route}
        for route in (COMMENTS, PULLS, REPLIES)
        for fault in (
            {"kind": "fail_before", "status": 502},
            {"kind": "fail_after", "status": 502},
            {"kind": "cut", "when": "before"},
            {"kind": "cut", "when": "after"},
            {"kind": "cut", "when": "body"},
            {"kind": "delay", "seconds": LONG},
            {"kind": "hide", "seconds": 120},
        )
    ),
    {"kind": "fail_before", "method": "PATCH", "route": EDITS, "status": 502},
    {"kind": "fail_after", "method": "PATCH", "route": EDITS, "status": 502},
)
# In this order, again and again, so that each kind has its share.
VICTIMS = ("agent", "service", "shim", "service", "agent", "shim", "service")
# Rules that wait for a request at one time: more would only stand in each other's way.
MOST_WAITING = 12


class Chaos:
    """Strikes as often as is due; counts what really happened."""

    def __init__(self, town: Town, dice: random.Random) -> None:
        self._town = town
        self._dice = dice
        self.kills: Counter[str] = Counter()
        self._struck_before: Counter[str] = Counter()

    # -- GitHub -------------------------------------------------------------------------------

    def trouble(self, due: int, *, reads_alone: bool) -> None:
        """Have rules until so many have struck or wait; at the end only reads are sure to come."""
        plan = self._town.hub.app.pipeline.faults
        waiting = [rule for rule in self._town.look(lambda _: plan.listed()) if not rule["struck"]]
        if reads_alone:
            for rule in (rule for rule in waiting if rule["method"] != "GET"):
                self._town.look(lambda _, rule=rule: plan.remove(rule["id"]))
            waiting = [rule for rule in waiting if rule["method"] == "GET"]
        choice = [one for one in FAULTS if not reads_alone or one["method"] == "GET"]
        missing = due - sum(self.faults().values()) - len(waiting)
        for _ in range(max(0, min(missing, MOST_WAITING - len(waiting)))):
            fault = self._dice.choice(choice)
            self._town.look(lambda _, fault=fault: plan.add(fault))

    def calm(self) -> None:
        """No more faults."""
        self._struck_before = self.faults()
        plan = self._town.hub.app.pipeline.faults
        self._town.look(lambda _: plan.remove())

    def faults(self) -> Counter[str]:
        """How often each kind has struck."""
        plan = self._town.hub.app.pipeline.faults
        listed = self._town.look(lambda _: plan.listed())
        struck = Counter(self._struck_before)
        for rule in listed:
            struck[rule["kind"]] += rule["struck"]
        return struck

    # -- processes ----------------------------------------------------------------------------

    def strike(self, *, anybody: bool) -> None:
        """Kill the next one, if there is one of its kind; a service always is (`anybody`)."""
        victim = "service" if anybody else VICTIMS[sum(self.kills.values()) % len(VICTIMS)]
        struck = self._strike_service() if victim == "service" else self._strike_run(victim)
        self.kills[victim] += struck

    def _strike_service(self) -> bool:
        self._town.kill_service()
        self._town.start(self._skew())
        return True

    def _strike_run(self, victim: str) -> bool:
        run = self._choose_run()
        process = run and (self._shim(run) if victim == "shim" else self._agent(run))
        if not (run and process and self._kill(process)):
            return False
        self._town.note(word="killed", run=run.run, what=victim)
        return True

    def replace_service(self) -> None:
        """Leave in peace, and come back."""
        self._town.leave()
        self._town.start(self._skew())

    def _skew(self) -> float:
        return self._dice.uniform(-self._town.size.skew, self._town.size.skew)

    def _choose_run(self) -> Run | None:
        with self._town.store.read() as tx:
            runs = live_runs(tx)
        return self._dice.choice(runs) if runs else None

    def _shim(self, run: Run) -> processes.Process | None:
        return processes.read_process(json.loads(run.shim)["pid"]) if run.shim else None

    def _agent(self, run: Run) -> processes.Process | None:
        begun = [s for s in self._town.stamps() if s["word"] == "begin" and s["run"] == run.run]
        return processes.read_process(begun[-1]["pid"]) if begun else None

    def _kill(self, process: processes.Process) -> bool:
        """Only if it is what it was taken for: numbers of processes come again."""
        if process.zombie or process.key not in {one.key for one in self._town.left()}:
            return False
        return ended(process)
