"""The guard and the push plan, on random histories, against a model."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.checkouts.errors import HistoryRewritten
from hostler.checkouts.mirror import Mirror, create_bare_repo, is_ancestor
from hostler.checkouts.names import Sha, parse_sha
from hostler.checkouts.push import (
    HistoryVerdict,
    PushMove,
    has_arrived,
    judge_history,
    plan_push,
    require_history,
)
from hostler.model import RepoName


@dataclass(frozen=True)
class History:
    """Commits by number, each with the numbers of its parents."""

    parents: tuple[frozenset[int], ...]

    def reaches(self, older: int, newer: int) -> bool:
        return older == newer or any(self.reaches(older, p) for p in self.parents[newer])

    def as_stream(self) -> bytes:
        """The same for `git fast-import`."""
        lines = []
        for number, parents in enumerate(self.parents):
            lines += [f"commit refs/heads/c{number}", f"mark :{number + 1}"]
            lines += [f"committer A <a@b> {number} +0000", "data 0"]
            words = ("from", "merge")
            lines += [f"{words[n > 0]} :{p + 1}" for n, p in enumerate(sorted(parents))]
        return ("\n".join(lines) + "\n").encode()


@st.composite
def histories(draw: st.DrawFn) -> History:
    size = draw(st.integers(1, 8))
    parents = [
        draw(st.frozensets(st.integers(0, number - 1), max_size=2)) if number else frozenset()
        for number in range(size)
    ]
    return History(tuple(parents))


def named(numbers: int) -> list[Sha]:
    return [parse_sha(f"{number:040x}") for number in range(1, numbers + 1)]


def expected_verdict(history: History, head: int, base: int, pushed: int | None) -> HistoryVerdict:
    if pushed is not None and not history.reaches(pushed, head):
        return HistoryVerdict.PUSHED_LOST
    if not history.reaches(base, head):
        return HistoryVerdict.BASE_LOST
    return (
        HistoryVerdict.UNCHANGED
        if head == (base if pushed is None else pushed)
        else HistoryVerdict.GROWN
    )


@given(histories(), st.data())
def test_the_guard_agrees_with_a_model(history: History, data: st.DataObject) -> None:
    any_commit = st.integers(0, len(history.parents) - 1)
    head, base = data.draw(any_commit), data.draw(any_commit)
    pushed = data.draw(st.none() | any_commit)
    names = named(len(history.parents))

    def known(older: Sha, newer: Sha) -> bool:
        return history.reaches(names.index(older), names.index(newer))

    was = None if pushed is None else names[pushed]
    verdict = judge_history(known, names[head], base=names[base], pushed=was)
    assert verdict is expected_verdict(history, head, base, pushed)
    if verdict in {HistoryVerdict.GROWN, HistoryVerdict.UNCHANGED}:
        assert require_history(known, names[head], base=names[base], pushed=was) is verdict
    else:
        with pytest.raises(HistoryRewritten) as refused:
            require_history(known, names[head], base=names[base], pushed=was)
        assert refused.value.missing == (
            was if verdict is HistoryVerdict.PUSHED_LOST else names[base]
        )


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_git_agrees_with_the_model(
    tmp_path_factory: pytest.TempPathFactory, history: History
) -> None:
    path = tmp_path_factory.mktemp("history") / "m.git"
    create_bare_repo(path)
    mirror = Mirror(path, RepoName("a", "b"))
    marks = path / "marks"
    subprocess.run(
        ["git", "-C", path, "fast-import", "--quiet", f"--export-marks={marks}"],
        input=history.as_stream(),
        check=True,
    )
    names = names_of(marks)
    reaches = partial(is_ancestor, mirror)
    last = len(names) - 1
    for number in range(len(names)):
        assert reaches(names[number], names[last]) == history.reaches(number, last)


def names_of(marks: Path) -> list[Sha]:
    lines = sorted(marks.read_text().splitlines(), key=lambda line: int(line[1:].split()[0]))
    return [parse_sha(line.split()[1]) for line in lines]


COMMITS = st.sampled_from(named(3))


@given(st.none() | COMMITS, st.none() | COMMITS, COMMITS)
def test_a_push_happens_only_from_what_was_expected(
    found: Sha | None, expected: Sha | None, new: Sha
) -> None:
    move = plan_push(found, expected, new)
    assert (move is PushMove.ALREADY) == (found == new)
    if move in {PushMove.CREATE, PushMove.ADVANCE}:
        assert found == expected
        assert (move is PushMove.CREATE) == (found is None)
    if move is PushMove.RACED:
        assert found != expected


def test_a_commit_has_arrived_if_the_remote_has_it_or_more() -> None:
    old, new, other = named(3)

    def follows(older: Sha, newer: Sha) -> bool:
        return (older, newer) == (old, new)

    assert has_arrived(follows, old, old)
    assert has_arrived(follows, new, old)
    assert not has_arrived(follows, other, old)
    assert not has_arrived(follows, None, old)
