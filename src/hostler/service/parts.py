"""A service put together: every part made once, from the house and the duty."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from hostler.clock import Clock
from hostler.config.settings import Runtime
from hostler.errors import HostlerError
from hostler.flows import settled
from hostler.forge import Pace, Reconciler, Sender, Window
from hostler.governor import attach, look_around
from hostler.intake import watch
from hostler.model import RepoName
from hostler.runs import LocalDispatcher, Supervisor
from hostler.service.admission import Admission, Office
from hostler.service.bulletin import Bulletin
from hostler.service.chores import Chores
from hostler.service.demanding import Demander
from hostler.service.desks import Desks, House
from hostler.service.journal import Journal
from hostler.service.limiter import GlobalWorkLimiter
from hostler.service.observing import Observer
from hostler.service.orchestrator import RepoOrchestrator
from hostler.service.outgoing import Outgoing
from hostler.service.policies import Policies
from hostler.service.questions import Questions
from hostler.service.work import Work
from hostler.store.tasks import SCOPE as TASKS

IO_WORKERS = 4


@dataclass(frozen=True, slots=True)
class Duty:
    """What a service does: `polls` repositories; `only` these tasks, if named."""

    polls: bool = True
    only: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class Ground:
    """What the parts of a service stand on. `observe` is told of every step."""

    house: House
    clock: Clock
    journal: Journal
    duty: Duty
    observe: Observer


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one service."""

    limiter: GlobalWorkLimiter
    io: ThreadPoolExecutor
    observe: Observer
    chores: Chores
    dispatcher: LocalDispatcher
    work: Work
    supervisor: Supervisor
    admission: Admission
    demander: Demander
    outgoing: Outgoing
    orchestrators: tuple[RepoOrchestrator, ...]


def assemble(ground: Ground) -> Parts:
    """Make the parts. Nothing runs yet."""
    house, journal = ground.house, ground.journal
    desks = Desks(house)
    policies = Policies(house.home, house.settings, journal.broke)
    bulletin = Bulletin(house, ground.clock, journal.broke)
    observe = both(ground.observe, bulletin.heard)
    io = ThreadPoolExecutor(IO_WORKERS, thread_name_prefix="io")
    dispatcher = _dispatcher(ground, observe)
    office = _office(ground, desks, policies)
    questions = Questions(house.store, bulletin, journal.broke)
    work = Work(
        house,
        desks,
        bulletin,
        questions,
        observe=ground.observe,
        broke=journal.broke,
        spent=journal.spent,
    )
    return Parts(
        limiter=GlobalWorkLimiter(house.settings.runtime.worker_count),
        io=io,
        observe=observe,
        chores=_chores(ground, desks, bulletin, questions, io, policies),
        dispatcher=dispatcher,
        work=work,
        supervisor=_supervisor(house, dispatcher, work, observe),
        admission=Admission(office, ground.duty.only),
        demander=Demander(office, journal.too_wide),
        outgoing=_outgoing(ground),
        orchestrators=tuple(_orchestrators(ground, desks)),
    )


def _dispatcher(ground: Ground, observe: Observer) -> LocalDispatcher:
    house = ground.house
    return LocalDispatcher(
        house.home,
        house.store,
        ground.clock,
        attached=attach,
        environment=house.environment,
        observer=observe,
    )


def _chores(
    ground: Ground,
    desks: Desks,
    bulletin: Bulletin,
    questions: Questions,
    io: Executor,
    policies: Policies,
) -> Chores:
    return Chores(
        ground.house,
        desks,
        bulletin,
        questions,
        ground.journal,
        io,
        ground.clock,
        policies.current,
    )


def _supervisor(
    house: House, dispatcher: LocalDispatcher, work: Work, observe: Observer
) -> Supervisor:
    return Supervisor(
        house.home,
        house.store,
        dispatcher,
        work.hooks(),
        grace_seconds=house.settings.runtime.stop_grace_seconds,
        observer=observe,
    )


def _office(ground: Ground, desks: Desks, policies: Policies) -> Office:
    house = ground.house
    # Whoever asks for one task has just spoken with GitHub about it.
    everything = frozenset(house.settings.repo)
    ready = desks.ready if ground.duty.polls else lambda: everything
    return Office(house.store, house.settings, policies.current, ready, look_around)


def _outgoing(ground: Ground) -> Outgoing:
    house = ground.house
    between = timedelta(seconds=house.settings.github.seconds_between_writes)
    sender = Sender(
        house.store,
        house.hub.urgent,
        ground.clock,
        Pace(between_writes=between),
        settled=settled,
        observe=ground.observe,
        scopes=(TASKS,),
        payer=lambda row: payer_of(house, row.repo),
    )
    patience = timedelta(seconds=house.settings.runtime.action_token_unobserved_seconds)
    reconciler = Reconciler(
        house.store, house.hub.urgent, ground.clock, patience, ground.journal.never_seen
    )
    return Outgoing(sender, reconciler, ground.clock, ground.journal.broke)


def payer_of(house: House, repo: RepoName) -> str:
    """The account that writes to a repository; one that cannot be told is held for its own."""
    try:
        return house.hub.credentials.account(repo)
    except HostlerError:
        return str(repo)


def _orchestrators(ground: Ground, desks: Desks) -> list[RepoOrchestrator]:
    if not ground.duty.polls:
        return []
    house, settings = ground.house, ground.house.settings
    reach, log = window(settings.runtime), ground.journal.log
    return [
        RepoOrchestrator(
            house,
            desks,
            watch(project, repo, house.settings.tasks),
            ground.clock,
            reach,
            ground.observe,
            log,
        )
        for project, repo in settings.repo.items()
    ]


def both(first: Observer, second: Observer) -> Observer:
    """Two observers as one."""

    def observe(step: str, run: str) -> None:
        first(step, run)
        second(step, run)

    return observe


def window(runtime: Runtime) -> Window:
    """How far each look reaches back."""
    return Window(
        overlap=timedelta(seconds=runtime.comment_fetch_overlap_seconds),
        late_visibility=timedelta(seconds=runtime.comment_fetch_late_visibility_seconds),
        safe_backfill=timedelta(seconds=runtime.comment_fetch_safe_backfill_seconds),
    )
