"""Workflow runs: how they begin, end and begin again. The sandbox runs no CI; it is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hostler.sandbox.ci.entities import (
    FAILURES,
    CheckRun,
    CiJob,
    CiRun,
    CiScript,
    JobStep,
    Workflow,
)
from hostler.sandbox.git import commits
from hostler.sandbox.git.smart_http import GitPush
from hostler.sandbox.state.entities import Repo
from hostler.sandbox.state.world import World


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job as requested by a test: `conclusion` None means that it is still running."""

    name: str
    conclusion: str | None = "success"
    log: str = ""
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunCause:
    """What a run is about."""

    sha: str
    branch: str | None
    actor: str
    title: str
    event: str = "push"
    workflow: str = "CI"


def conclusion_of(conclusions: Iterable[str | None]) -> str | None:
    """Return a run's conclusion; None while a job is running."""
    ends = set(conclusions)
    if None in ends:
        return None
    if ends & (FAILURES - {"cancelled"}):
        return "failure"
    return "cancelled" if "cancelled" in ends else "success"


def start_run(world: World, repo: Repo, cause: RunCause, plans: Sequence[JobPlan]) -> CiRun:
    """Start a run with its jobs, in the states that the plans give."""
    workflow = _workflow(world, repo, cause.workflow)
    now, end = world.now(), conclusion_of(plan.conclusion for plan in plans)
    made = world.put(
        CiRun(
            id=world.new_id("run"),
            repo_id=repo.id,
            workflow_id=workflow.id,
            run_number=world.count(f"run:{workflow.id}"),
            head_sha=cause.sha,
            head_branch=cause.branch,
            event=cause.event,
            actor=cause.actor,
            title=cause.title,
            created_at=now,
            updated_at=now,
            started_at=now,
            status="completed" if end else "in_progress",
            conclusion=end,
        )
    )
    for plan in plans:
        _add_job(world, made, plan)
    world.publish("workflow_run", made, "requested", cause.actor)
    if end:
        world.publish("workflow_run", made, "completed", cause.actor)
    return made


def _workflow(world: World, repo: Repo, name: str) -> Workflow:
    found = world.truth.find(Workflow, repo.id, name)
    if found is not None:
        return found
    slug = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    path = f".github/workflows/{slug}.yml"
    return world.put(Workflow(world.new_id("workflow"), repo.id, name, path, world.now()))


def _add_job(world: World, run: CiRun, plan: JobPlan) -> CiJob:
    check = CheckRun(
        id=world.new_id("check_run"),
        repo_id=run.repo_id,
        head_sha=run.head_sha,
        name=plan.name,
        creator=run.actor,
    )
    job = CiJob(
        id=world.new_id("job"),
        repo_id=run.repo_id,
        run_id=run.id,
        attempt=run.attempt,
        name=plan.name,
        created_at=world.now(),
        status="in_progress",
        conclusion=None,
        started_at=world.now(),
        check_run_id=check.id,
    )
    world.put(replace(check, status="in_progress", started_at=world.now(), job_id=job.id))
    world.put(job)
    return _end_job(world, job, plan) if plan.conclusion else world.put(replace(job, log=plan.log))


def _end_job(world: World, job: CiJob, plan: JobPlan) -> CiJob:
    now, names = world.now(), plan.steps or ("Run",)
    # The last step is the one that decides.
    ends = ["success"] * (len(names) - 1) + [plan.conclusion]
    steps = tuple(JobStep(name, "completed", end) for name, end in zip(names, ends, strict=True))
    ended = world.put(
        replace(
            job,
            status="completed",
            conclusion=plan.conclusion,
            completed_at=now,
            steps=steps,
            log=plan.log or job.log,
        )
    )
    check = world.truth.get(CheckRun, job.check_run_id)
    if check is not None:
        done = replace(check, status="completed", conclusion=plan.conclusion, completed_at=now)
        world.publish("check_run", world.put(done), "completed", check.creator)
    world.publish("workflow_job", ended, "completed", check.creator if check else "ghost")
    return ended


def jobs_of(world: World, run: CiRun, attempt: int | None = None) -> list[CiJob]:
    """Return a run's jobs, of its present attempt unless another is named."""
    wanted = attempt or run.attempt
    found: list[CiJob] = list(world.truth.group(CiJob, "run", run.id).select())
    return [job for job in found if job.attempt == wanted]


def finish_run(world: World, run: CiRun, plans: Sequence[JobPlan], default: str) -> CiRun:
    """End the running jobs, each as its plan or else the default says."""
    told = {plan.name: plan for plan in plans}
    for job in jobs_of(world, run):
        if job.status != "completed":
            _end_job(world, job, told.get(job.name, JobPlan(job.name, default)))
    return _update_run(world, run)


def _update_run(world: World, run: CiRun) -> CiRun:
    end = conclusion_of(job.conclusion for job in jobs_of(world, run))
    status = "completed" if end else "in_progress"
    after = world.put(replace(run, status=status, conclusion=end, updated_at=world.now()))
    if end:
        world.publish("workflow_run", after, "completed", run.actor)
    return after


def rerun(world: World, run: CiRun, actor: str, *, failed_only: bool) -> CiRun:
    """Start a new attempt; jobs that are kept from the last one keep their conclusion."""
    old = jobs_of(world, run)
    now = world.now()
    again = replace(
        run,
        attempt=run.attempt + 1,
        status="queued",
        conclusion=None,
        started_at=now,
        updated_at=now,
        actor=actor,
    )
    world.put(again)
    for job in old:
        kept = failed_only and job.conclusion not in FAILURES
        steps = tuple(step.name for step in job.steps)
        end = job.conclusion if kept else None
        _add_job(world, again, JobPlan(job.name, end, job.log if kept else "", steps))
    world.publish("workflow_run", again, "requested", actor)
    return again


async def run_ci_script(world: World, push: GitPush) -> None:
    """Run the repository's CI script, if it has one, for every branch that moved."""
    repo, script = world.truth.get(Repo, push.number), world.truth.get(CiScript, push.number)
    if repo is None or script is None or world.repo_store is None:
        return
    plans = [JobPlan(name, end or None, log) for name, end, log in script.jobs]
    for move in push.moves:
        if move.deleted or not move.ref.startswith("refs/heads/"):
            continue
        commit = await commits.get_commit(world.repo_store.get(repo.id), move.new)
        branch = move.ref.removeprefix("refs/heads/")
        cause = RunCause(move.new, branch, push.login, commit.title, workflow=script.workflow)
        start_run(world, repo, cause, plans)
