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
from hostler.service.context import AppContext, StepHook
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

# A waiting run keeps its thread but not its slot; the limiter limits how many work.
_MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class ServiceMode:
    """What a service does: `polls` repositories, only `once`, or runs `only` these tasks."""

    polls: bool = True
    only: Collection[str] | None = None
    once: bool = False


@dataclass(frozen=True, slots=True)
class ServiceDeps:
    """What all parts of a service need. `observe` is called after every step.

    `wake` triggers an iteration of the main loop; `enqueue` starts waiting tasks; `freed` is
    called when a worker is free; `closed` returns why nothing starts; `leaving` whether the
    service is shutting down.
    """

    app: AppContext
    clock: Clock
    service_log: ServiceLog
    mode: ServiceMode
    observe: StepHook
    wake: Callable[[], None]
    enqueue: Callable[[], None]
    freed: Callable[[], None]
    closed: Callable[[Transaction], str]
    leaving: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class StaticParts:
    """The parts that live as long as the process."""

    limiter: GlobalWorkLimiter
    thread_pools: ThreadPools
    workers: WorkerPool
    pool: ThreadPoolExecutor
    bus_notifier: BusNotifier
    questions: QuestionForwarder
    observe: StepHook
    dispatcher: LocalDispatcher
    outgoing: SenderThreads
    queued: QueuedRuns


@dataclass(frozen=True, slots=True)
class SettingsParts:
    """The parts that are built again when the settings change."""

    app: AppContext
    repo_contexts: RepoContexts
    maintenance: Maintenance
    work: RunHooks
    jobs: JobFactory
    run_monitor: RunMonitor
    demand_reporter: DemandReporter
    task_dispatcher: TaskDispatcher
    orchestrators: tuple[RepoOrchestrator, ...]


def build_static(deps: ServiceDeps) -> StaticParts:
    """Build the parts that live as long as the process. Starts nothing."""
    app, service_log = deps.app, deps.service_log
    bus_notifier = BusNotifier(app, deps.clock, service_log.broke)
    observe = _call_both(deps.observe, bus_notifier.post_run_step)
    limiter = GlobalWorkLimiter(app.settings.runtime.worker_count)
    pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="worker")
    return StaticParts(
        limiter=limiter,
        thread_pools=ThreadPools(),
        workers=_build_worker_pool(deps, pool, limiter),
        pool=pool,
        bus_notifier=bus_notifier,
        questions=QuestionForwarder(app.store, bus_notifier, service_log.broke),
        observe=observe,
        dispatcher=_build_dispatcher(deps, observe),
        outgoing=SenderThreads(_build_outbox_thread(deps), _build_notifier(deps)),
        queued=QueuedRuns(),
    )


def build_for_settings(
    deps: ServiceDeps, static_parts: StaticParts, before: SettingsParts | None = None
) -> SettingsParts:
    """Build the parts that depend on the settings. They take over the state of `before`."""
    app, service_log = deps.app, deps.service_log
    repo_contexts = before.repo_contexts.renewed(app) if before else RepoContexts(app)
    policies = PolicyCache(app.home, app.settings, service_log.broke, app.store)
    admission_deps = _build_admission_deps(deps, repo_contexts, policies)
    work = _build_run_hooks(deps, static_parts, repo_contexts, policies)
    jobs = JobFactory(_build_supervisor(app, static_parts, work, deps.clock), work)
    maintenance = _build_maintenance(deps, static_parts, repo_contexts, policies)
    demand_reporter = DemandReporter(admission_deps, service_log.share_warning)
    return SettingsParts(
        app=app,
        repo_contexts=repo_contexts,
        maintenance=maintenance,
        work=work,
        jobs=jobs,
        run_monitor=RunMonitor(
            app,
            service_log,
            static_parts.dispatcher,
            static_parts.limiter,
            static_parts.workers,
            deps.clock,
        ),
        demand_reporter=demand_reporter,
        task_dispatcher=TaskDispatcher(
            Admission(admission_deps, deps.mode.only, static_parts.queued),
            demand_reporter,
            jobs,
            static_parts.workers,
            static_parts.limiter,
            maintenance,
            service_log,
            static_parts.observe,
            deps.clock,
            deps.leaving,
        ),
        orchestrators=tuple(_build_orchestrators(deps, static_parts, repo_contexts, before)),
    )


def _build_worker_pool(
    deps: ServiceDeps, pool: ThreadPoolExecutor, limiter: GlobalWorkLimiter
) -> WorkerPool:
    service_log = deps.service_log
    return WorkerPool(
        pool,
        limiter,
        deps.clock,
        ended=service_log.ended,
        troubled=service_log.troubled,
        freed=deps.freed,
    )


def _build_dispatcher(deps: ServiceDeps, observe: StepHook) -> LocalDispatcher:
    app = deps.app
    return LocalDispatcher(
        app.home,
        app.store,
        deps.clock,
        on_attach=attach,
        environment=app.environment,
        observer=observe,
    )


def _build_run_hooks(
    deps: ServiceDeps, static_parts: StaticParts, repo_contexts: RepoContexts, policies: PolicyCache
) -> RunHooks:
    return RunHooks(
        deps.app,
        repo_contexts,
        static_parts.bus_notifier,
        static_parts.questions,
        observe=deps.observe,
        on_defect=deps.service_log.broke,
        on_budget=deps.service_log.spent,
        on_prompt_problem=deps.service_log.prompt_refused,
        policy=policies.current,
    )


def _build_maintenance(
    deps: ServiceDeps, static_parts: StaticParts, repo_contexts: RepoContexts, policies: PolicyCache
) -> Maintenance:
    return Maintenance(
        deps.app,
        repo_contexts,
        static_parts.bus_notifier,
        static_parts.questions,
        deps.service_log,
        static_parts.thread_pools.maintenance,
        deps.clock,
        policies,
    )


def _build_supervisor(
    app: AppContext, static_parts: StaticParts, work: RunHooks, clock: Clock
) -> Supervisor:
    return Supervisor(
        app.home,
        app.store,
        static_parts.dispatcher,
        work,
        grace_seconds=app.settings.runtime.stop_grace_seconds,
        observer=static_parts.observe,
        clock=clock,
    )


def _build_admission_deps(
    deps: ServiceDeps, repo_contexts: RepoContexts, policies: PolicyCache
) -> AdmissionDeps:
    app = deps.app
    # A process that runs one task has just read it from GitHub.
    everything = frozenset(app.settings.repo)
    ready = repo_contexts.ready if deps.mode.polls else lambda: everything
    return AdmissionDeps(
        app.store,
        app.settings,
        policies.current,
        ready,
        read_host,
        deps.closed,
        lambda: read_disk_space(app.home),
    )


def _build_outbox_thread(deps: ServiceDeps) -> OutboxThread:
    app = deps.app
    between = timedelta(seconds=app.settings.github.seconds_between_writes)
    sender = OutboxSender(
        app.store,
        app.hub.urgent,
        deps.clock,
        OutboxPolicy(between_writes=between),
        settled=handle_settled_write,
        observe=deps.observe,
        scopes=(TASKS,),
        account=app.hub.credentials.account,
    )
    patience = timedelta(seconds=app.settings.runtime.action_token_unobserved_seconds)
    reconciler = WriteReconciler(
        app.store, app.hub.urgent, deps.clock, patience, deps.service_log.never_seen
    )
    return OutboxThread(sender, reconciler, deps.clock, deps.service_log.broke)


def _build_notifier(deps: ServiceDeps) -> Notifier:
    app, service_log = deps.app, deps.service_log
    return Notifier(
        app.store,
        app.settings,
        deps.clock,
        app.environment,
        told=service_log.called,
        troubled=service_log.broke,
    )


def _build_orchestrators(
    deps: ServiceDeps,
    static_parts: StaticParts,
    repo_contexts: RepoContexts,
    before: SettingsParts | None,
) -> list[RepoOrchestrator]:
    if not deps.mode.polls:
        return []
    app, settings = deps.app, deps.app.settings
    reach, log = poll_window(settings.runtime), deps.service_log.log
    poll_deps = PollDeps(static_parts.thread_pools, deps.wake, deps.enqueue)
    made = [
        RepoOrchestrator(
            RepoPoller(
                app,
                repo_contexts,
                build_repo_policy(project, repo, settings.tasks),
                reach,
                deps.observe,
                log,
            ),
            _build_poll_schedule(settings.runtime),
            poll_deps,
            deps.clock,
        )
        for project, repo in settings.repo.items()
    ]
    known = {one.project: one for one in before.orchestrators} if before else {}
    for one in made:
        if one.project in known:
            one.take_over_from(known[one.project])
    return made


def _call_both(first: StepHook, second: StepHook) -> StepHook:
    """Return a hook that calls both."""

    def observe(step: str, run: str) -> None:
        first(step, run)
        second(step, run)

    return observe


def _build_poll_schedule(runtime: Runtime) -> PollSchedule:
    """Return how often repositories are polled."""
    return PollSchedule(float(runtime.poll_interval_seconds), runtime.poll_cadence == "turn")


def poll_window(runtime: Runtime) -> PollWindow:
    """Return how far back each poll reads."""
    return PollWindow(
        overlap=timedelta(seconds=runtime.comment_fetch_overlap_seconds),
        late_visibility=timedelta(seconds=runtime.comment_fetch_late_visibility_seconds),
        safe_backfill=timedelta(seconds=runtime.comment_fetch_safe_backfill_seconds),
    )
