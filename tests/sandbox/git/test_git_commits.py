"""Merges, comparison, file edits and the repository store, on real repositories, without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from git_host import SOMEBODY

from hostler.sandbox.git import commits, diffs, files, names, refs
from hostler.sandbox.git.commits import CommitQuery, Merge
from hostler.sandbox.git.errors import BadName, MergeConflict, NotFastForward, RefMoved
from hostler.sandbox.git.files import FileEdit
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.repository import Repository, RepoStore

Story = Callable[[Repository, str], Awaitable[None]]
POEM = "".join(f"line {n}\n" for n in range(1, 21))


def publish(folder: Path, story: Story) -> None:
    """Run a story on a fresh repository with one commit on main."""

    async def whole() -> None:
        repo_store = RepoStore.at(folder)
        repo = await repo_store.create(1, title="one", default_branch="main", person=SOMEBODY)
        start = await refs.branch(repo, "main")
        assert start
        await story(repo, start)

    asyncio.run(whole())


async def edit(repo: Repository, parent: str, path: str, text: str | None) -> str:
    data = None if text is None else text.encode()
    return await files.write_file(
        repo, FileEdit(parent, path, data, f"Change {path}\n", SOMEBODY, SOMEBODY)
    )


def merge_of(base: str, head: str) -> Merge:
    return Merge(base, head, "Together\n\nBody\n", SOMEBODY, SOMEBODY)


async def text_of(repo: Repository, commit: str, path: str) -> str:
    found = await files.find_entry(repo, commit, path)
    assert found
    return (await files.read_blob(repo, found.sha)).decode()


def test_a_merge_has_both_sides_and_both_parents(tmp_path: Path) -> None:
    async def story(repo: Repository, start: str) -> None:
        old = await edit(repo, start, "poem", POEM)
        ours = await edit(repo, old, "poem", POEM.replace("line 2\n", "line two\n"))
        theirs = await edit(repo, old, "poem", POEM.replace("line 19\n", "line nineteen\n"))
        made = await commits.merge(repo, merge_of(ours, theirs))
        text = await text_of(repo, made, "poem")
        assert "line two" in text and "line nineteen" in text
        assert (await commits.get_commit(repo, made)).parents == (ours, theirs)

    publish(tmp_path, story)


def test_a_squash_is_one_commit_and_a_rebase_is_each_again(tmp_path: Path) -> None:
    async def story(repo: Repository, start: str) -> None:
        ours = await edit(repo, start, "ours", "1")
        first = await edit(repo, start, "a", "1")
        theirs = await edit(repo, first, "b", "2")
        squashed = await commits.squash(repo, merge_of(ours, theirs))
        assert (await commits.get_commit(repo, squashed)).parents == (ours,)
        rebased = await commits.rebase(repo, merge_of(ours, theirs))
        replayed = await commits.new_commits(repo, ours, rebased)
        assert [commit.title for commit in replayed] == ["Change a", "Change b"]
        assert await diffs.changed_files_with_patches(repo, squashed, rebased) == []

    publish(tmp_path, story)


@pytest.mark.parametrize("way", [commits.merge, commits.squash, commits.rebase])
def test_two_answers_to_one_line_conflict(
    tmp_path: Path, way: Callable[[Repository, Merge], Awaitable[str]]
) -> None:
    async def story(repo: Repository, start: str) -> None:
        ours = await edit(repo, start, "README.md", "ours\n")
        theirs = await edit(repo, start, "README.md", "theirs\n")
        with pytest.raises(MergeConflict) as error:
            await way(repo, merge_of(ours, theirs))
        assert error.value.paths == ("README.md",)
        assert list(repo.runner.home.iterdir()) == []

    publish(tmp_path, story)


def test_a_file_moved_on_one_side_and_changed_on_the_other_merges(tmp_path: Path) -> None:
    async def story(repo: Repository, start: str) -> None:
        old = await edit(repo, start, "poem", POEM)
        away = await edit(repo, old, "poem", None)
        moved = await edit(repo, away, "verse/poem", POEM)
        theirs = await edit(repo, old, "poem", POEM.replace("line 5\n", "line five\n"))
        made = await commits.merge(repo, merge_of(moved, theirs))
        assert "line five" in await text_of(repo, made, "verse/poem")

    publish(tmp_path, story)


def test_histories_without_a_common_start_do_not_merge(tmp_path: Path) -> None:
    async def story(repo: Repository, start: str) -> None:
        other = await files.write_file(repo, FileEdit(None, "x", b"1", "Alone", SOMEBODY, SOMEBODY))
        with pytest.raises(MergeConflict):
            await commits.merge(repo, merge_of(start, other))
        assert (await commits.compare(repo, start, other)).merge_base is None

    publish(tmp_path, story)


def test_a_comparison_counts_both_sides_and_shows_each_file(tmp_path: Path) -> None:
    async def story(repo: Repository, start: str) -> None:
        old = await edit(repo, start, "poem", POEM)
        ours = await edit(repo, old, "ours", "1\n")
        away = await edit(repo, old, "poem", None)
        moved = await edit(repo, away, "p oem\ttwo", POEM)
        head = await edit(repo, moved, "README.md", None)
        found = await commits.compare(repo, ours, head)
        assert (found.status, found.ahead, found.behind) == ("diverged", 3, 1)
        assert found.merge_base == old
        files = await commits.new_files(repo, ours, head)
        assert [(f.path, f.status, f.previous) for f in files] == [
            ("README.md", "removed", None),
            ("p oem\ttwo", "renamed", "poem"),
        ]
        assert files[0].patch == "@@ -1 +0,0 @@\n-# one"
        assert files[1].patch is None

    publish(tmp_path, story)


def test_a_binary_file_has_no_patch_and_no_counts(tmp_path: Path) -> None:
    async def story(repo: Repository, start: str) -> None:
        change = FileEdit(start, "b", b"\0\1\2", "Binary", SOMEBODY, SOMEBODY)
        made = await files.write_file(repo, change)
        (found,) = await diffs.changed_files_with_patches(repo, start, made)
        assert (found.additions, found.deletions, found.patch) == (0, 0, None)

    publish(tmp_path, story)


def test_a_ref_moves_only_forward_unless_forced(tmp_path: Path) -> None:
    async def story(repo: Repository, start: str) -> None:
        one = await edit(repo, start, "a", "1")
        two = await edit(repo, start, "a", "2")
        await refs.forward(repo, "refs/heads/main", one, force=False)
        with pytest.raises(NotFastForward):
            await refs.forward(repo, "refs/heads/main", two, force=False)
        await refs.forward(repo, "refs/heads/main", two, force=True)
        with pytest.raises(RefMoved):
            await refs.move(repo, "refs/heads/main", one, expected=one)
        await refs.move(repo, "refs/heads/main", ZERO, expected=two)
        assert await refs.branch(repo, "main") is None

    publish(tmp_path, story)


def test_a_branch_name_wins_over_a_short_sha(tmp_path: Path) -> None:
    async def story(repo: Repository, start: str) -> None:
        made = await edit(repo, start, "a", "1")
        await refs.move(repo, f"refs/heads/{start[:7]}", made)
        assert await refs.resolve(repo, start[:7]) == made
        assert await refs.resolve(repo, start) == start
        assert await refs.resolve(repo, "heads/main") == start

    publish(tmp_path, story)


def test_history_is_cut_by_path_and_time(tmp_path: Path) -> None:
    async def story(repo: Repository, start: str) -> None:
        first = await edit(repo, start, "a[1]", "1")
        second = await edit(repo, first, "b", "2")
        assert [c.sha for c in await commits.log(repo, CommitQuery(second, path="a[1]"))] == [first]
        later = datetime(2026, 1, 3, tzinfo=UTC)
        assert await commits.log(repo, CommitQuery(second, since=later)) == []
        assert await commits.count_commits(repo, CommitQuery(second)) == 3

    publish(tmp_path, story)


def test_repositories_are_exported_whole_and_loaded_elsewhere(tmp_path: Path) -> None:
    async def story(repo: Repository, start: str) -> None:
        made = await edit(repo, start, "a", "1")
        await refs.move(repo, "refs/pull/1/head", made)
        repo_store = RepoStore.at(repo.path.parent)
        await repo_store.export(tmp_path / "saved")
        other = RepoStore.at(tmp_path / "other")
        await other.create(9, title="gone", default_branch="main", person=SOMEBODY)
        await other.load(tmp_path / "saved")
        assert other.numbers() == [1]
        assert await refs.snapshot(other.get(1)) == await refs.snapshot(repo)
        assert (await other.get(1).git("fsck", "--strict")).code == 0

    publish(tmp_path / "first", story)


@pytest.mark.parametrize(
    "text",
    ["", "-x", "a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "/a", "a/", "a//b",
     ".a", "a/.b", "a.lock", "a.", "@", "a@{1}", "a\x7f", "a\n", "x" * 300],
)  # fmt: skip
def test_names_that_git_would_misread_are_refused(text: str) -> None:
    with pytest.raises(BadName):
        names.branch_ref(text)


@pytest.mark.parametrize("text", ["../x", "a/../b", ".git/config", "a/.GIT/x", "a//b", "a\0b"])
def test_paths_that_lead_outside_are_refused(text: str) -> None:
    with pytest.raises(BadName):
        names.tree_path(text)
