"""One process that has some tests collected, and forks a child for each mutant.

The child puts the mutant into the loaded modules, runs the tests that execute the changed
statement, the fastest first, and stops at the first failure. The parent runs no test itself, so
that nothing a test leaves behind (a cache, a connection) reaches a mutant.
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from mutation_code import LoadedModule, NotApplicable, codes_in, functions_by_code
from mutation_operators import Mutant

# CPU seconds; tests of one mutant that take longer than this together are not all run.
MOST_TEST_SECONDS = 2.0
# A mutant hangs if it uses more CPU time than this, or none for so long: neither depends on what
# else the machine does.
CPU_SECONDS, CPU_FACTOR = 5.0, 4.0
IDLE_SECONDS, LEAST_PROGRESS = 40.0, 0.05
# A mutant that fills its memory or the disk must not take the machine with it.
MOST_MEMORY, MOST_FILE = 6 << 30, 1 << 28

KILLED, TIMEOUT, SURVIVED, UNCOVERED = "killed", "timeout", "survived", "uncovered"
NOT_APPLICABLE = "not applicable"


# A module and the number of a statement in it; or a name in the code of a test.
Hit = tuple[str, int | str]
_IN_TESTS = "tests"


class MutationError(Exception):
    """The campaign cannot be run. The message says why."""


@dataclass(frozen=True, slots=True)
class TestCost:
    """How many CPU seconds a test takes, and the statements that it executes."""

    index: int
    nodeid: str
    seconds: float
    hits: frozenset[Hit]


@dataclass(slots=True)
class Outcome:
    """What became of a mutant."""

    id: str
    module: str
    line: int
    operator: str
    status: str
    by: str = ""
    tests: int = 0
    left_out: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Child:
    """A child at work."""

    pid: int
    pidfd: int
    pipe: int
    folder: Path
    idle_until: float
    begun: float
    outcome: Outcome | None = None
    text: bytes = b""
    cpu: float = 0.0

    def is_idle(self) -> bool:
        """Return whether it has used no CPU time for a while; look again later if it has."""
        if time.monotonic() < self.idle_until:
            return False
        before, self.cpu = self.cpu, _cpu_seconds_of(self.pid)
        self.idle_until = time.monotonic() + IDLE_SECONDS
        return self.cpu - before < LEAST_PROGRESS


@dataclass(eq=False)
class Campaign:
    """A pytest plugin that runs mutants instead of the collected tests."""

    modules: Sequence[str]
    jobs: int
    choose: Callable[[list[Mutant]], list[Mutant]]
    tell: Callable[[Outcome], None]
    failed: list[str] = field(default_factory=list)
    costs: list[TestCost] = field(default_factory=list)
    hits: set[Hit] = field(default_factory=set)
    shared_hits: dict[str, set[Hit]] = field(default_factory=dict)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Let Hypothesis draw the same examples each time, and remember nothing."""
        phases = [one for one in Phase if one not in (Phase.shrink, Phase.explain, Phase.reuse)]
        settings.register_profile(
            "mutation", settings(), derandomize=True, database=None, phases=phases
        )
        settings.load_profile("mutation")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for name in self.modules:
            importlib.import_module(name)
        gc.unfreeze()  # frozen objects are not listed
        functions = functions_by_code()
        loaded = {
            name: LoadedModule(name, importlib.import_module(name), functions)
            for name in self.modules
        }
        gc.collect()
        gc.freeze()
        _require_one_thread()
        self.costs = _measure(session, loaded, self.jobs)
        mutants = self.choose([one for each in loaded.values() for one in each.source.mutants])
        _run_all(self, session, loaded, mutants)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Note what a fixture of several tests executes: that belongs to each of them."""
        if fixturedef.scope == "function":
            return (yield)
        before = self.hits.copy()
        self.hits.clear()
        try:
            return (yield)
        finally:
            self.shared_hits.setdefault(fixturedef.argname, set()).update(self.hits)
            self.hits.update(before)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def run_campaign(campaign: Campaign, tests: Sequence[str], left_out: Sequence[str] = ()) -> None:
    """Collect the tests, and run the campaign on them in this process."""
    given = [
        *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "-o", "addopts="),
        *("-q", "--strict-markers", "--timeout", "0"),
        *("-m", "not soak and not real_agents and not postgres"),
        *(f"--deselect={one}" for one in left_out),
        *tests,
    ]
    code = pytest.main(given, plugins=[campaign])
    if code != 0:
        raise MutationError(f"The tests could not be collected or measured (pytest: {code}).")


def _require_one_thread() -> None:
    """Raise if this process has threads: a fork would copy their locks as they happen to be."""
    count = len([*Path("/proc/self/task").iterdir()])
    if count != 1 or threading.active_count() != 1:
        raise MutationError(f"{count} threads run after the collection of the tests.")


def _measure(session: pytest.Session, loaded: dict[str, LoadedModule], jobs: int) -> list[TestCost]:
    """Run every test once in children, without any mutant."""
    waiting = []
    for part in range(jobs):
        child = _fork(lambda part=part: _measured(session, loaded, part, jobs), None, 0)
        waiting.append(child)
    costs = []
    for child in waiting:
        text = b"".join(iter(lambda child=child: os.read(child.pipe, 1 << 16), b""))
        _reap(child)
        if not text.startswith(b"["):
            raise MutationError(text.decode() or "The tests ended the process that runs them.")
        costs += [
            TestCost(index, nodeid, seconds, frozenset((name, one) for name, one in hits))
            for index, nodeid, seconds, hits in json.loads(text)
        ]
    return sorted(costs, key=lambda cost: (cost.seconds, cost.index))


def _measured(
    session: pytest.Session, loaded: dict[str, LoadedModule], part: int, parts: int
) -> str:
    campaign = _campaign_of(session)
    hits = campaign.hits
    for module in loaded.values():
        module.count_statements(hits.add)
    told = []
    chosen = [*enumerate(session.items)][part::parts]
    for (index, item), following in zip(chosen, [*chosen[1:], None], strict=False):
        hits.clear()
        begun = _cpu_seconds()
        nextitem = following and following[1]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        if campaign.failed:
            return f"{item.nodeid} fails without any mutant."
        for name in getattr(item, "fixturenames", ()):
            hits |= campaign.shared_hits.get(name, set())
        seconds = _cpu_seconds() - begun
        named = [(_IN_TESTS, name) for name in sorted(_names_in(item))]
        told.append((index, item.nodeid, seconds, [*sorted(hits), *named]))
    return json.dumps(told)


def _cpu_seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _names_in(item: pytest.Item) -> set[str]:
    """Return the global names and attributes that the code of a test mentions."""
    function = getattr(item, "function", None)
    test = getattr(function, "hypothesis", None)
    codes = [one.__code__ for one in (function, getattr(test, "inner_test", None)) if one]
    return {name for code in codes for one in (code, *codes_in(code)) for name in one.co_names}


def _cpu_seconds() -> float:
    """Return what this process and its children have used: the same on a busy machine."""
    return sum(os.times()[:4])


def _campaign_of(session: pytest.Session) -> Campaign:
    found = [one for one in session.config.pluginmanager.get_plugins() if type(one) is Campaign]
    return found[0]


def _run_all(
    campaign: Campaign,
    session: pytest.Session,
    loaded: dict[str, LoadedModule],
    mutants: list[Mutant],
) -> None:
    by_hit: dict[Hit, list[TestCost]] = {}
    for cost in campaign.costs:
        for hit in cost.hits:
            by_hit.setdefault(hit, []).append(cost)
    children: dict[int, Child] = {}
    for mutant in mutants:
        chosen, left_out = _tests_for(mutant, loaded, by_hit)
        outcome = Outcome(mutant.id, mutant.module, mutant.place.line, mutant.operator, UNCOVERED)
        if not chosen:
            campaign.tell(outcome)
            continue
        outcome.tests, outcome.left_out = len(chosen), left_out
        usual = sum(cost.seconds for cost in chosen)
        act = _act_of(session, loaded[mutant.module], mutant, chosen)
        child = _fork(act, outcome, max(CPU_SECONDS, CPU_FACTOR * usual))
        children[child.pidfd] = child
        while len(children) >= campaign.jobs:
            for done in _wait(children):
                campaign.tell(done)
    while children:
        for done in _wait(children):
            campaign.tell(done)


def _tests_for(
    mutant: Mutant,
    loaded: dict[str, LoadedModule],
    by_hit: dict[Hit, list[TestCost]],
) -> tuple[list[TestCost], int]:
    """Return the tests that a change can reach, the fastest first, and how many are left out."""
    found = {cost.index: cost for hit in _hits_of(mutant, loaded) for cost in by_hit.get(hit, ())}
    ordered = sorted(found.values(), key=lambda cost: (cost.seconds, cost.index))
    chosen: list[TestCost] = []
    seconds = 0.0
    for cost in ordered:
        seconds += cost.seconds
        if chosen and seconds > MOST_TEST_SECONDS:
            break
        chosen.append(cost)
    return chosen, len(ordered) - len(chosen)


def _hits_of(mutant: Mutant, loaded: dict[str, LoadedModule]) -> Iterator[Hit]:
    place, source = mutant.place, loaded[mutant.module].source
    if place.kind == "code":
        assert place.statement is not None
        yield mutant.module, place.statement
    elif place.kind == "default":
        for number in source.functions[place.qualname, place.first_line]:
            yield mutant.module, number
    else:
        names = {*place.names, *_depending(source.tree.body, place.names)}
        if place.kind == "class":
            names.add(place.qualname.split(".")[-2])
        for other in loaded.values():
            for name in names:
                yield from ((other.name, number) for number in other.source.uses.get(name, ()))
                for key in other.source.default_uses.get(name, ()):
                    yield from ((other.name, number) for number in other.source.functions[key])
        # Tests that look at the constant or the class itself.
        yield from ((_IN_TESTS, name) for name in names)


def _depending(body: Sequence[object], names: Sequence[str]) -> set[str]:
    """Return global names whose values are made from others."""
    found = set(names)
    for node in body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            walked = [*ast.walk(node)]
            if any(isinstance(one, ast.Name) and one.id in found for one in walked):
                found |= {
                    one.id
                    for one in walked
                    if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
                }
    return found


def _act_of(
    session: pytest.Session, module: LoadedModule, mutant: Mutant, chosen: Sequence[TestCost]
) -> Callable[[], str]:
    items = [session.items[cost.index] for cost in chosen]

    def act() -> str:
        try:
            module.mutate(mutant)
        except NotApplicable:
            return NOT_APPLICABLE
        except Exception as error:
            return f"{KILLED} by {type(error).__name__} when the module is loaded"
        campaign = _campaign_of(session)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if campaign.failed:
                return f"{KILLED} by {campaign.failed[0]}"
        return SURVIVED

    return act


def _fork(act: Callable[[], str], outcome: Outcome | None, cpu: float) -> Child:
    folder = Path(tempfile.mkdtemp(prefix="hostler-mutant-"))
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_child(act, writing, folder, cpu)
    os.close(writing)
    begun = time.monotonic()
    return Child(pid, os.pidfd_open(pid), reading, folder, begun + IDLE_SECONDS, begun, outcome)


def _be_child(act: Callable[[], str], pipe: int, folder: Path, cpu: float) -> None:
    """Run in the child, and never return."""
    try:
        os.setsid()
        _limit(cpu)
        tempfile.tempdir = str(folder)
        os.environ |= {"TMPDIR": str(folder), "PYTEST_DEBUG_TEMPROOT": str(folder)}
        text = act()
    except BaseException as error:
        text = f"{KILLED} by {type(error).__name__}: {error}"
    with suppress(OSError):
        view = memoryview(text.encode())
        while view:
            view = view[os.write(pipe, view) :]
    os._exit(0)


def _limit(cpu: float) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if cpu:
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu) + 1, int(cpu) + 2))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE, MOST_FILE))


def _wait(children: dict[int, Child]) -> list[Outcome]:
    """Wait until a child is over or may hang, and take the outcome up of those that are over."""
    until = min(child.idle_until for child in children.values())
    poll = select.poll()
    for child in children.values():
        poll.register(child.pidfd, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(max(0.0, until - time.monotonic()) * 1000 + 1)}
    over = [child for child in children.values() if child.pidfd in ready or child.is_idle()]
    done = []
    for child in over:
        del children[child.pidfd]
        done.append(_outcome_of(child, hung=child.pidfd not in ready))
    return done


def _outcome_of(child: Child, *, hung: bool) -> Outcome:
    assert child.outcome is not None
    outcome = child.outcome
    outcome.seconds = time.monotonic() - child.begun
    # What the child has written fits into the pipe.
    os.set_blocking(child.pipe, False)
    with suppress(BlockingIOError):
        child.text = os.read(child.pipe, 1 << 16)
    _reap(child)
    status, _, by = child.text.decode().partition(" by ")
    if hung or not status:
        outcome.status = TIMEOUT
    else:
        outcome.status, outcome.by = status, by
    return outcome


def _reap(child: Child) -> None:
    """End what is left of a child's process group, and remove its files."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
    os.close(child.pidfd)
    os.close(child.pipe)
    shutil.rmtree(child.folder, ignore_errors=True)
