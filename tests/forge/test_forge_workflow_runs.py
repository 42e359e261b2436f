"""Workflow runs, jobs and logs: the stub and the real client behave alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_forge_contract import Fake, Real

from hostler.errors import NotFound, ServerFailed
from hostler.forge.actions import RerunFailedJobs
from hostler.forge.events import content_as
from hostler.forge.github.payloads import parse_run
from hostler.forge.port import FAILED_CONCLUSIONS, WorkflowRun, last_lines

LOG = "".join(f"line {n}\n" for n in range(1000))


class RealCi(Real):
    def head(self, number):
        return self.sandbox_repo.do("GET", f"pulls/{number}")["head"]["sha"]

    def run(self, sha, conclusion=None, log=""):
        job = {"name": "build", "conclusion": conclusion, "log": log}
        where = {"repo": str(self.sandbox_repo.name), "sha": sha, "jobs": [job]}
        return self.sandbox_repo.control("POST", "/actions/runs", **where)["id"]

    def end(self, run, conclusion, log=""):
        job = {"name": "build", "conclusion": conclusion, "log": log}
        where = {"repo": str(self.sandbox_repo.name), "run_id": run, "jobs": [job]}
        self.sandbox_repo.control("POST", "/actions/finish", **where)


class FakeCi(Fake):
    def head(self, number):
        return self.forge.pulls[number]["head"]["sha"]

    def run(self, sha, conclusion=None, log=""):
        return self.forge.run(sha, by="alice", conclusion=conclusion, log=log)

    def end(self, run, conclusion, log=""):
        self.forge.end_run(run, conclusion, log)


@pytest.fixture(params=["real", "stub"])
def git_place(request):
    if request.param == "stub":
        return FakeCi()
    return RealCi(request.getfixturevalue("sandbox_repo"))


def test_a_failed_run_names_its_jobs_and_their_logs(git_place):
    run = git_place.run(git_place.head(git_place.pull()), "failure", LOG)
    found = content_as(git_place.forge.workflow_run(run), WorkflowRun)
    assert (found.failed, found.passed, found.attempt) == (True, False, 1)
    (job,) = git_place.forge.failed_jobs(run)
    assert (job.name, job.conclusion) == ("build", "failure")
    assert git_place.forge.job_log(job.id) == LOG


def test_a_run_that_passes_has_no_failed_jobs(git_place):
    run = git_place.run(git_place.head(git_place.pull()), "success")
    assert content_as(git_place.forge.workflow_run(run), WorkflowRun).passed
    assert git_place.forge.failed_jobs(run) == []


def test_what_is_not_there_has_no_run_and_no_log(git_place):
    assert git_place.forge.workflow_run(999_999) is None
    assert git_place.forge.job_log(999_999) == ""


def test_failed_jobs_run_once_more_and_only_once(git_place):
    head = git_place.head(git_place.pull())
    run = git_place.run(head, "failure")
    deed = RerunFailedJobs(1, run, 1)
    since = git_place.forge.now()
    assert git_place.forge.find_performed(deed, token="k1", since=since) is None
    made = git_place.forge.perform(deed, token="k1")
    assert made.id == run
    assert git_place.forge.find_performed(deed, token="k1", since=since) == made
    # A second try of the same deed finds that it was done.
    assert git_place.forge.perform(deed, token="k1") == made
    assert content_as(git_place.forge.workflow_run(run), WorkflowRun).attempt == 2
    git_place.end(run, "success")
    assert content_as(git_place.forge.workflow_run(run), WorkflowRun).passed
    with pytest.raises(NotFound):
        git_place.forge.perform(RerunFailedJobs(1, 999_999, 1), token="k2")


def test_the_runs_of_a_head_are_asked_for_conditionally(git_place):
    head = git_place.head(git_place.pull())
    first = git_place.run(head)
    found = git_place.forge.list_commit_runs(head)
    assert [(one.id, content_as(one, WorkflowRun).over) for one in found.items] == [(first, False)]
    assert git_place.forge.list_commit_runs(head, known=found.chain).unchanged
    git_place.end(first, "failure")
    (ended,) = git_place.forge.list_commit_runs(head, known=found.chain).items
    assert content_as(ended, WorkflowRun).failed
    assert git_place.forge.list_commit_runs("e" * 40).items == ()


def test_a_log_is_fetched_without_our_token_and_without_naming_its_address(
    sandbox_git_repo, sandbox_repo
):
    ci = RealCi(sandbox_repo)
    run = ci.run(ci.head(ci.pull()), "failure", "x" * 300_000 + "end")
    (job,) = ci.forge.failed_jobs(run)
    sandbox_repo.sandbox.app.pipeline.ledger.clear()
    assert ci.forge.job_log(job.id).endswith("xend")
    assert len(ci.forge.job_log(job.id)) == 256 * 1024
    sandbox_repo.fault("status", status=500, route="/_storage/*")
    with pytest.raises(ServerFailed) as error:
        ci.forge.job_log(job.id)
    assert "_storage" not in str(error.value) and "actions/jobs" in str(error.value)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cc", "Zl", "Zp", "Cs"]), max_size=30)),
    st.integers(1, 20),
    st.integers(1, 200),
)
def test_the_end_of_a_log_is_its_last_lines(lines, most, longest):
    log = "\n".join(lines)
    kept = last_lines(log, most, longest)
    assert len(kept) <= longest and len(kept.splitlines()) <= most
    assert log.rstrip().endswith(kept)


@given(
    st.sampled_from([*sorted(FAILED_CONCLUSIONS), "success", "cancelled", "skipped", None]),
    st.booleans(),
)
def test_only_a_run_that_is_over_can_have_failed(conclusion, over):
    status = "completed" if over else "in_progress"
    run = parse_run({"id": 1, "head_sha": "a", "status": status, "conclusion": conclusion})
    assert run.failed == (over and conclusion in FAILED_CONCLUSIONS)
    assert not (run.failed and run.passed)


def test_a_run_of_a_fork_is_told_apart():
    payload = {"id": 1, "head_sha": "a", "status": "completed", "conclusion": "failure"}
    here, there = {"full_name": "octo/stable"}, {"full_name": "mallory/stable"}
    assert not parse_run({**payload, "repository": here, "head_repository": here}).foreign
    assert parse_run({**payload, "repository": here, "head_repository": there}).foreign
    assert not parse_run(payload).foreign
