"""Cursors, tokens and repositories, on both databases."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from hostler.errors import StoreConflict
from hostler.model import RepoName, ScopeKind, Surface, TokenStatus
from hostler.store import known_repositories
from hostler.store.schema import poll_cursors

HERE = RepoName("octo", "stable")
THERE = RepoName("octo", "barn")


@pytest.fixture
def repo(store):
    return store.repo("octo/stable")


def plan(repo, tx, token="t1", kind=ScopeKind.ISSUE, number=7):
    return repo.record_action_token_planned(
        tx, token, scope_kind=kind, scope_number=number, source="feedback"
    )


def move(repo, tx, at="2026-03-01T12:00:00Z", comment=9, done=False, scope=7):
    return repo.upsert_poll_cursor(
        tx,
        Surface.PR_ISSUE_COMMENTS,
        scope,
        last_updated_at=at,
        last_comment_id=comment,
        bootstrap_complete=done,
    )


def test_a_stream_that_was_never_read_has_no_cursor(store, repo):
    with store.read() as tx:
        assert repo.get_poll_cursor(tx, Surface.REPO_ISSUES, 0) is None


def test_a_cursor_is_read_as_it_was_stored(store, repo):
    with store.write() as tx:
        stored = move(repo, tx)
        assert stored.updated_at == tx.stamp()
    with store.read() as tx:
        assert repo.get_poll_cursor(tx, Surface.PR_ISSUE_COMMENTS, 7) == stored
    assert stored.last_updated_at == "2026-03-01T12:00:00.000Z"
    assert stored.bootstrap_complete is False


def test_a_cursor_moves_forward_and_may_be_set_back(store, repo):
    with store.write() as tx:
        move(repo, tx)
        move(repo, tx, "2026-03-02T00:00:00.5Z", 12, done=True)
    with store.read() as tx:
        found = repo.get_poll_cursor(tx, Surface.PR_ISSUE_COMMENTS, 7)
    assert (found.last_updated_at, found.last_comment_id) == ("2026-03-02T00:00:00.500Z", 12)
    assert found.bootstrap_complete is True
    with store.write() as tx:
        assert move(repo, tx).last_comment_id == 9


def test_each_repository_surface_and_scope_has_a_cursor_of_its_own(store, repo):
    with store.write() as tx:
        move(repo, tx)
        assert repo.get_poll_cursor(tx, Surface.PR_ISSUE_COMMENTS, 8) is None
        assert repo.get_poll_cursor(tx, Surface.PR_REVIEW_COMMENTS, 7) is None
        assert store.repo(THERE).get_poll_cursor(tx, Surface.PR_ISSUE_COMMENTS, 7) is None


def test_a_cursor_that_is_no_moment_is_refused_and_one_that_was_damaged_is_shown(store, repo):
    with pytest.raises(ValueError), store.write() as tx:
        move(repo, tx, "soon")
    with store.write() as tx:
        move(repo, tx)
        tx.execute(update(poll_cursors).values(last_updated_at="damaged"))
        found = repo.get_poll_cursor(tx, Surface.PR_ISSUE_COMMENTS, 7)
    assert found.last_updated_at == "damaged"


def test_cursor_and_token_are_stored_together_or_not_at_all(store, repo):
    with pytest.raises(ZeroDivisionError), store.write() as tx:
        move(repo, tx)
        plan(repo, tx)
        raise ZeroDivisionError
    with store.read() as tx:
        assert repo.get_poll_cursor(tx, Surface.PR_ISSUE_COMMENTS, 7) is None
        assert repo.get_action_token(tx, "t1") is None


def test_a_token_goes_from_planned_over_posted_to_observed(store, repo):
    with store.write() as tx:
        assert plan(repo, tx).status is TokenStatus.PLANNED
        posted = repo.record_action_token_posted(tx, "t1")
        assert (posted.status, posted.attempt_count) == (TokenStatus.POSTED, 1)
        seen = repo.record_action_token_observed(
            tx, "t1", comment_id=2**40, updated_at="2026-03-01T12:00:00Z"
        )
    assert (seen.status, seen.attempt_count) == (TokenStatus.OBSERVED, 1)
    assert seen.observed_comment_id == 2**40
    assert seen.observed_updated_at == "2026-03-01T12:00:00.000Z"
    with store.read() as tx:
        assert repo.get_action_token(tx, "t1") == seen


def test_our_own_comment_may_be_seen_before_its_answer_is_noted(store, repo):
    with store.write() as tx:
        plan(repo, tx)
        repo.record_action_token_observed(tx, "t1", comment_id=5, updated_at="2026-03-01T12:00:00Z")
        late = repo.record_action_token_posted(tx, "t1")
    assert (late.status, late.attempt_count) == (TokenStatus.OBSERVED, 1)
    assert late.observed_comment_id == 5


def test_a_failed_write_that_is_seen_after_all_is_observed(store, repo):
    with store.write() as tx:
        plan(repo, tx)
        assert repo.record_action_token_failed(tx, "t1").status is TokenStatus.FAILED
        assert plan(repo, tx).status is TokenStatus.FAILED
        seen = repo.record_action_token_observed(
            tx, "t1", comment_id=5, updated_at="2026-03-01T12:00:00Z"
        )
        assert seen.status is TokenStatus.OBSERVED
        assert repo.record_action_token_failed(tx, "t1").status is TokenStatus.OBSERVED


def test_planning_a_known_token_changes_nothing(store, repo):
    with store.write() as tx:
        plan(repo, tx)
        posted = repo.record_action_token_posted(tx, "t1")
    with store.write() as tx:
        assert plan(repo, tx) == posted


def test_a_token_belongs_to_one_thread(store, repo):
    with store.write() as tx:
        plan(repo, tx)
    with pytest.raises(StoreConflict), store.write() as tx:
        plan(repo, tx, number=8)


def test_a_pasted_token_is_not_ours_and_an_unplanned_one_cannot_be_posted(store, repo):
    with store.write() as tx:
        seen = repo.record_action_token_observed(
            tx, "?", comment_id=5, updated_at="2026-03-01T12:00:00Z"
        )
    assert seen is None
    for note in (repo.record_action_token_posted, repo.record_action_token_failed):
        with pytest.raises(StoreConflict), store.write() as tx:
            note(tx, "?")


def test_a_repository_is_known_once(store, repo):
    with store.write() as tx:
        assert repo.get(tx) is None
        first = repo.add(tx)
        assert first.github_id is None
        assert repo.add(tx, 42).github_id == 42
        assert repo.add(tx).github_id == 42
        assert known_repositories(tx) == [repo.get(tx)]
    assert first.name == HERE


def test_a_number_under_a_new_name_is_a_rename_of_everything(store, repo):
    with store.write() as tx:
        repo.add(tx, 42)
        plan(repo, tx)
        move(repo, tx)
    renamed = store.repo(THERE)
    with store.write() as tx:
        renamed.add(tx, 42)
        assert [found.name for found in known_repositories(tx)] == [THERE]
        assert renamed.get_action_token(tx, "t1") is not None
        assert renamed.get_poll_cursor(tx, Surface.PR_ISSUE_COMMENTS, 7) is not None
        assert repo.get_action_token(tx, "t1") is None


def test_another_spelling_is_the_same_repository(store, repo):
    with store.write() as tx:
        repo.add(tx)
        plan(repo, tx)
        spelled = store.repo("Octo/Stable")
        spelled.add(tx)
        assert [str(found.name) for found in known_repositories(tx)] == ["Octo/Stable"]
        assert spelled.get_action_token(tx, "t1") is not None


def test_a_repository_is_not_renamed_onto_another(store, repo):
    with store.write() as tx:
        repo.add(tx)
        store.repo(THERE).add(tx)
    with pytest.raises(StoreConflict), store.write() as tx:
        repo.rename(tx, THERE)
    with store.write() as tx:
        assert repo.rename(tx, RepoName("octo", "meadow")).get(tx) is not None


def test_a_repository_made_anew_under_an_old_name_is_not_taken_for_the_old_one(store, repo):
    with store.write() as tx:
        repo.add(tx, 42)
    with pytest.raises(StoreConflict), store.write() as tx:
        repo.add(tx, 43)
