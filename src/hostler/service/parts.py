"""A service put together: what lasts as long as it does, and what other settings make anew."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from hostler.clock import Clock
from hostler.config.settings import Runtime
from hostler.flows import settled
from hostler.forge import Pace, Reconciler, Sender, Window
from hostler.governor import attach, look_around
from hostler.intake import watch
from hostler.runs import LocalDispatcher, Supervisor
from hostler.service.admission import Admission, Office
from hostler.service.bulletin import Bulletin
from hostler.service.chores import Chores
from hostler.service.crew import Crew
from hostler.service.demanding import Demander
from hostler.service.desks import Desks
from hostler.service.enqueueing import Enqueuer, Jobs
from hostler.service.house import House
from hostler.service.journal import Journal
from hostler.service.lanes import Lanes
from hostler.service.limiter import GlobalWorkLimiter
from hostler.service.looking import Looker
from hostler.service.minding import Minder
from hostler.service.notify import Notifier
from hostler.service.observing import Observer
from hostler.service.orchestrator import RepoOrchestrator, Rhythm, Staff
from hostler.service.outgoing import Messengers, Outgoing
from hostler.service.policies import Policies
from hostler.service.questions import Questions
from hostler.service.queueing import QueuedRuns
from hostler.service.space import rooms_of
from hostler.service.work import Work
from hostler.store.tasks import SCOPE as TASKS
from hostler.store.transaction import Transaction

# Who waits for others keeps a thread, not a place: the limiter says how many work.
MOST_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Duty:
    """What a service does: `polls` repositories, perhaps `once`; `only` these tasks, if named."""

    polls: bool = True
    only: Collection[str] | None = None
    once: bool = False


@dataclass(frozen=True, slots=True)
class Ground:
    """What the parts of a service stand on. `observe` is told of every step.

    `wake` has another turn; `enqueue` starts what has a place; `freed` is called when a worker is
    free; `closed` says why nothing begins; `leaving` whether we are.
    """

    house: House
    clock: Clock
    journal: Journal
    duty: Duty
    observe: Observer
    wake: Callable[[], None]
    enqueue: Callable[[], None]
    freed: Callable[[], None]
    closed: Callable[[Transaction], str]
    leaving: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Lasting:
    """The parts that stay, whatever the settings become."""

    limiter: GlobalWorkLimiter
    lanes: Lanes
    crew: Crew
    pool: ThreadPoolExecutor
    bulletin: Bulletin
    questions: Questions
    observe: Observer
    dispatcher: LocalDispatcher
    outgoing: Messengers
    queued: QueuedRuns


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts by one state of the settings."""

    house: House
    desks: Desks
    chores: Chores
    work: Work
    jobs: Jobs
    minder: Minder
    demander: Demander
    enqueuer: Enqueuer
    orchestrators: tuple[RepoOrchestrator, ...]


def assemble(ground: Ground) -> Lasting:
    """Make the parts that stay. Nothing runs yet."""
    house, journal = ground.house, ground.journal
    bulletin = Bulletin(house, ground.clock, journal.broke)
    observe = both(ground.observe, bulletin.heard)
    limiter = GlobalWorkLimiter(house.settings.runtime.worker_count)
    pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="worker")
    return Lasting(
        limiter=limiter,
        lanes=Lanes(),
        crew=_crew(ground, pool, limiter),
        pool=pool,
        bulletin=bulletin,
        questions=Questions(house.store, bulletin, journal.broke),
        observe=observe,
        dispatcher=_dispatcher(ground, observe),
        outgoing=Messengers(_outgoing(ground), _notifier(ground)),
        queued=QueuedRuns(),
    )


def furnish(ground: Ground, lasting: Lasting, before: Parts | None = None) -> Parts:
    """Make the others by the settings of the house; what those `before` them know goes on."""
    house, journal = ground.house, ground.journal
    desks = before.desks.renewed(house) if before else Desks(house)
    policies = Policies(house.home, house.settings, journal.broke, house.store)
    office = _office(ground, desks, policies)
    work = _work(ground, lasting, desks, policies)
    jobs = Jobs(_supervisor(house, lasting, work, ground.clock), work)
    chores = _chores(ground, lasting, desks, policies)
    demander = Demander(office, journal.too_wide)
    return Parts(
        house=house,
        desks=desks,
        chores=chores,
        work=work,
        jobs=jobs,
        minder=Minder(
            house, journal, lasting.dispatcher, lasting.limiter, lasting.crew, ground.clock
        ),
        demander=demander,
        enqueuer=Enqueuer(
            Admission(office, ground.duty.only, lasting.queued),
            demander,
            jobs,
            lasting.crew,
            lasting.limiter,
            chores,
            journal,
            lasting.observe,
            ground.clock,
            ground.leaving,
        ),
        orchestrators=tuple(_orchestrators(ground, lasting, desks, before)),
    )


def _crew(ground: Ground, pool: ThreadPoolExecutor, limiter: GlobalWorkLimiter) -> Crew:
    journal = ground.journal
    return Crew(
        pool,
        limiter,
        ground.clock,
        ended=journal.ended,
        troubled=journal.troubled,
        freed=ground.freed,
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


def _work(ground: Ground, lasting: Lasting, desks: Desks, policies: Policies) -> Work:
    return Work(
        ground.house,
        desks,
        lasting.bulletin,
        lasting.questions,
        observe=ground.observe,
        broke=ground.journal.broke,
        spent=ground.journal.spent,
        refused=ground.journal.prompt_refused,
        policy=policies.current,
    )


def _chores(ground: Ground, lasting: Lasting, desks: Desks, policies: Policies) -> Chores:
    return Chores(
        ground.house,
        desks,
        lasting.bulletin,
        lasting.questions,
        ground.journal,
        lasting.lanes.chores,
        ground.clock,
        policies,
    )


def _supervisor(house: House, lasting: Lasting, work: Work, clock: Clock) -> Supervisor:
    return Supervisor(
        house.home,
        house.store,
        lasting.dispatcher,
        work.hooks(),
        grace_seconds=house.settings.runtime.stop_grace_seconds,
        observer=lasting.observe,
        clock=clock,
    )


def _office(ground: Ground, desks: Desks, policies: Policies) -> Office:
    house = ground.house
    # Whoever asks for one task has just spoken with GitHub about it.
    everything = frozenset(house.settings.repo)
    ready = desks.ready if ground.duty.polls else lambda: everything
    return Office(
        house.store,
        house.settings,
        policies.current,
        ready,
        look_around,
        ground.closed,
        lambda: rooms_of(house.home),
    )


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
        account=house.hub.credentials.account,
    )
    patience = timedelta(seconds=house.settings.runtime.action_token_unobserved_seconds)
    reconciler = Reconciler(
        house.store, house.hub.urgent, ground.clock, patience, ground.journal.never_seen
    )
    return Outgoing(sender, reconciler, ground.clock, ground.journal.broke)


def _notifier(ground: Ground) -> Notifier:
    house, journal = ground.house, ground.journal
    return Notifier(
        house.store,
        house.settings,
        ground.clock,
        house.environment,
        told=journal.called,
        troubled=journal.broke,
    )


def _orchestrators(
    ground: Ground, lasting: Lasting, desks: Desks, before: Parts | None
) -> list[RepoOrchestrator]:
    if not ground.duty.polls:
        return []
    house, settings = ground.house, ground.house.settings
    reach, log = window(settings.runtime), ground.journal.log
    staff = Staff(lasting.lanes, ground.wake, ground.enqueue)
    made = [
        RepoOrchestrator(
            Looker(
                house,
                desks,
                watch(project, repo, settings.tasks),
                reach,
                ground.observe,
                log,
            ),
            rhythm_of(settings.runtime),
            staff,
            ground.clock,
        )
        for project, repo in settings.repo.items()
    ]
    known = {one.project: one for one in before.orchestrators} if before else {}
    for one in made:
        if one.project in known:
            one.succeed(known[one.project])
    return made


def both(first: Observer, second: Observer) -> Observer:
    """Two observers as one."""

    def observe(step: str, run: str) -> None:
        first(step, run)
        second(step, run)

    return observe


def rhythm_of(runtime: Runtime) -> Rhythm:
    """How often repositories are looked at."""
    return Rhythm(float(runtime.poll_interval_seconds), runtime.poll_cadence == "turn")


def window(runtime: Runtime) -> Window:
    """How far each look reaches back."""
    return Window(
        overlap=timedelta(seconds=runtime.comment_fetch_overlap_seconds),
        late_visibility=timedelta(seconds=runtime.comment_fetch_late_visibility_seconds),
        safe_backfill=timedelta(seconds=runtime.comment_fetch_safe_backfill_seconds),
    )
