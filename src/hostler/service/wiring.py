"""Build the objects of a service: those of the process, and those made from the settings."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from hostler.clock import Clock
from hostler.config.settings import Runtime
from hostler.forge.github.polling.cursors import PollWindow
from hostler.forge.outbox.reconciler import WriteReconciler
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.forge.outbox.sender import OutboxSender
from hostler.governor.holders import read_host
from hostler.governor.leases import attach
from hostler.intake.repo_policy import build_repo_policy
from hostler.runs import LocalDispatcher, Supervisor
from hostler.service.context import AppContext, StepObserver
from hostler.service.notifications.notifier import Notifier
from hostler.service.outbox_thread import OutboxThread, SenderThreads
from hostler.service.polling.orchestrator import (
    PollDeps,
    PollSchedule,
    RepoOrchestrator,
    ThreadPools,
)
from hostler.service.polling.repo_poller import RepoPoller
from hostler.service.pool_admin import PolicyCache
from hostler.service.repositories import RepoContexts
from hostler.service.running.bus_messages import BusNotifier, QuestionForwarder
from hostler.service.running.run_hooks import RunHooks
from hostler.service.scheduling.admission import Admission, AdmissionDeps, QueuedRuns
from hostler.service.scheduling.dispatch import (
    DemandReporter,
    JobFactory,
    RunMonitor,
    TaskDispatcher,
)
from hostler.service.scheduling.gates import read_disk_space
from hostler.service.scheduling.maintenance import Maintenance
from hostler.service.scheduling.workers import GlobalWorkLimiter, WorkerPool
from hostler.service.service_log import ServiceLog
from hostler.store.tasks import SCOPE as TASKS
from hostler.store.transaction import Transaction
from hostler.workflows.effects import handle_settled_write

# Who waits for others keeps a thread, not a place: the limiter says how many work.
_MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class ServiceMode:
    """What a service does: `polls` repositories, perhaps `once`; `only` these tasks, if named."""

    polls: bool = True
    only: Collection[str] | None = None
    once: bool = False


@dataclass(frozen=True, slots=True)
class ServiceDeps:
    """What the parts of a service stand on. `observe` is told of every step.

    `wake` has another turn; `enqueue` starts what has a place; `freed` is called when a worker is
    free; `closed` says why nothing begins; `leaving` whether we are.
    """

    house: AppContext
    clock: Clock
    journal: ServiceLog
    duty: ServiceMode
    observe: StepObserver
    wake: Callable[[], None]
    enqueue: Callable[[], None]
    freed: Callable[[], None]
    closed: Callable[[Transaction], str]
    leaving: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class StaticParts:
    """The parts that stay, whatever the settings become."""

    limiter: GlobalWorkLimiter
    lanes: ThreadPools
    crew: WorkerPool
    pool: ThreadPoolExecutor
    bulletin: BusNotifier
    questions: QuestionForwarder
    observe: StepObserver
    dispatcher: LocalDispatcher
    outgoing: SenderThreads
    queued: QueuedRuns


@dataclass(frozen=True, slots=True)
class SettingsParts:
    """The parts by one state of the settings."""

    house: AppContext
    desks: RepoContexts
    chores: Maintenance
    work: RunHooks
    jobs: JobFactory
    minder: RunMonitor
    demander: DemandReporter
    enqueuer: TaskDispatcher
    orchestrators: tuple[RepoOrchestrator, ...]


def build_static(ground: ServiceDeps) -> StaticParts:
    """Make the parts that stay. Nothing runs yet."""
    house, journal = ground.house, ground.journal
    bulletin = BusNotifier(house, ground.clock, journal.broke)
    observe = _combine_observers(ground.observe, bulletin.post_run_step)
    limiter = GlobalWorkLimiter(house.settings.runtime.worker_count)
    pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="worker")
    return StaticParts(
        limiter=limiter,
        lanes=ThreadPools(),
        crew=_build_worker_pool(ground, pool, limiter),
        pool=pool,
        bulletin=bulletin,
        questions=QuestionForwarder(house.store, bulletin, journal.broke),
        observe=observe,
        dispatcher=_build_dispatcher(ground, observe),
        outgoing=SenderThreads(_build_outbox_thread(ground), _build_notifier(ground)),
        queued=QueuedRuns(),
    )


def build_for_settings(
    ground: ServiceDeps, lasting: StaticParts, before: SettingsParts | None = None
) -> SettingsParts:
    """Make the others by the settings of the house; what those `before` them know goes on."""
    house, journal = ground.house, ground.journal
    desks = before.desks.renewed(house) if before else RepoContexts(house)
    policies = PolicyCache(house.home, house.settings, journal.broke, house.store)
    office = _build_admission_deps(ground, desks, policies)
    work = _build_run_hooks(ground, lasting, desks, policies)
    jobs = JobFactory(_build_supervisor(house, lasting, work, ground.clock), work)
    chores = _build_maintenance(ground, lasting, desks, policies)
    demander = DemandReporter(office, journal.share_warning)
    return SettingsParts(
        house=house,
        desks=desks,
        chores=chores,
        work=work,
        jobs=jobs,
        minder=RunMonitor(
            house, journal, lasting.dispatcher, lasting.limiter, lasting.crew, ground.clock
        ),
        demander=demander,
        enqueuer=TaskDispatcher(
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
        orchestrators=tuple(_build_orchestrators(ground, lasting, desks, before)),
    )


def _build_worker_pool(
    ground: ServiceDeps, pool: ThreadPoolExecutor, limiter: GlobalWorkLimiter
) -> WorkerPool:
    journal = ground.journal
    return WorkerPool(
        pool,
        limiter,
        ground.clock,
        ended=journal.ended,
        troubled=journal.troubled,
        freed=ground.freed,
    )


def _build_dispatcher(ground: ServiceDeps, observe: StepObserver) -> LocalDispatcher:
    house = ground.house
    return LocalDispatcher(
        house.home,
        house.store,
        ground.clock,
        on_attach=attach,
        environment=house.environment,
        observer=observe,
    )


def _build_run_hooks(
    ground: ServiceDeps, lasting: StaticParts, desks: RepoContexts, policies: PolicyCache
) -> RunHooks:
    return RunHooks(
        ground.house,
        desks,
        lasting.bulletin,
        lasting.questions,
        observe=ground.observe,
        on_defect=ground.journal.broke,
        on_budget=ground.journal.spent,
        on_prompt_problem=ground.journal.prompt_refused,
        policy=policies.current,
    )


def _build_maintenance(
    ground: ServiceDeps, lasting: StaticParts, desks: RepoContexts, policies: PolicyCache
) -> Maintenance:
    return Maintenance(
        ground.house,
        desks,
        lasting.bulletin,
        lasting.questions,
        ground.journal,
        lasting.lanes.chores,
        ground.clock,
        policies,
    )


def _build_supervisor(
    house: AppContext, lasting: StaticParts, work: RunHooks, clock: Clock
) -> Supervisor:
    return Supervisor(
        house.home,
        house.store,
        lasting.dispatcher,
        work,
        grace_seconds=house.settings.runtime.stop_grace_seconds,
        observer=lasting.observe,
        clock=clock,
    )


def _build_admission_deps(
    ground: ServiceDeps, desks: RepoContexts, policies: PolicyCache
) -> AdmissionDeps:
    house = ground.house
    # Whoever asks for one task has just spoken with GitHub about it.
    everything = frozenset(house.settings.repo)
    ready = desks.ready if ground.duty.polls else lambda: everything
    return AdmissionDeps(
        house.store,
        house.settings,
        policies.current,
        ready,
        read_host,
        ground.closed,
        lambda: read_disk_space(house.home),
    )


def _build_outbox_thread(ground: ServiceDeps) -> OutboxThread:
    house = ground.house
    between = timedelta(seconds=house.settings.github.seconds_between_writes)
    sender = OutboxSender(
        house.store,
        house.hub.urgent,
        ground.clock,
        OutboxPolicy(between_writes=between),
        settled=handle_settled_write,
        observe=ground.observe,
        scopes=(TASKS,),
        account=house.hub.credentials.account,
    )
    patience = timedelta(seconds=house.settings.runtime.action_token_unobserved_seconds)
    reconciler = WriteReconciler(
        house.store, house.hub.urgent, ground.clock, patience, ground.journal.never_seen
    )
    return OutboxThread(sender, reconciler, ground.clock, ground.journal.broke)


def _build_notifier(ground: ServiceDeps) -> Notifier:
    house, journal = ground.house, ground.journal
    return Notifier(
        house.store,
        house.settings,
        ground.clock,
        house.environment,
        told=journal.called,
        troubled=journal.broke,
    )


def _build_orchestrators(
    ground: ServiceDeps, lasting: StaticParts, desks: RepoContexts, before: SettingsParts | None
) -> list[RepoOrchestrator]:
    if not ground.duty.polls:
        return []
    house, settings = ground.house, ground.house.settings
    reach, log = poll_window(settings.runtime), ground.journal.log
    staff = PollDeps(lasting.lanes, ground.wake, ground.enqueue)
    made = [
        RepoOrchestrator(
            RepoPoller(
                house,
                desks,
                build_repo_policy(project, repo, settings.tasks),
                reach,
                ground.observe,
                log,
            ),
            _build_poll_schedule(settings.runtime),
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


def _combine_observers(first: StepObserver, second: StepObserver) -> StepObserver:
    """Two observers as one."""

    def observe(step: str, run: str) -> None:
        first(step, run)
        second(step, run)

    return observe


def _build_poll_schedule(runtime: Runtime) -> PollSchedule:
    """How often repositories are looked at."""
    return PollSchedule(float(runtime.poll_interval_seconds), runtime.poll_cadence == "turn")


def poll_window(runtime: Runtime) -> PollWindow:
    """How far each look reaches back."""
    return PollWindow(
        overlap=timedelta(seconds=runtime.comment_fetch_overlap_seconds),
        late_visibility=timedelta(seconds=runtime.comment_fetch_late_visibility_seconds),
        safe_backfill=timedelta(seconds=runtime.comment_fetch_safe_backfill_seconds),
    )
