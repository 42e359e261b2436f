"""What people will do, as data: a pure function of a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from soak_sizes import Size

# Every step that waits for something is named for what it waits for.
REVIEWS: tuple[tuple[str, ...], ...] = (
    ("say", "answered"),
    ("remark", "answered"),
    ("say", "edit", "answered"),
    ("remark", "answered", "edit", "answered"),
    ("say", "remark", "answered"),
    ("stranger says", "say", "answered"),
    ("stranger commands", "refused"),
    ("command status", "obeyed"),
    ("command why", "obeyed"),
    ("command pause", "obeyed", "command unpause", "obeyed"),
    (),
)
ENDS: tuple[tuple[str, ...], ...] = (("merge", "done"),) * 4 + (("close", "stopped"), ())
# How an agent behaves, how often, and how people come by its pull request, if ever.
PULL, BY_ANSWER = ("pull",), ("question", "answer", "pull")
STOPPED = ("hung", "command stop", "obeyed", "stopped")
AGAIN = ("free", "command retry", "obeyed", "pull")
BALKED = ("pull", "say", "blocked", "free", "command unblock", "obeyed", "answered")
WAYS: dict[str, tuple[int, tuple[tuple[str, ...], ...]]] = {
    "plain": (6, (PULL,)),
    "commits": (4, (PULL,)),
    "fails": (3, (PULL,)),
    "forks": (3, (PULL,)),
    "asks": (3, (BY_ANSWER,)),
    "hangs": (2, (STOPPED, (*STOPPED, *AGAIN))),
    "blocks": (2, (("blocked",), ("blocked", *AGAIN))),
    "balks": (2, (BALKED,)),
    "dies": (1, (("question",),)),
}
STRANGERS = 0.08
LABELS = ("agent:small-job", "agent:bugfix")


@dataclass(frozen=True)
class Story:
    """One issue: who files it where, how its agents behave, and what people do about it."""

    name: str
    repo: str
    author: str
    kind: str
    steps: tuple[str, ...]
    label: str = LABELS[0]

    @property
    def title(self) -> str:
        return f"{self.name} {self.kind}"

    @property
    def eligible(self) -> bool:
        return self.kind != "stranger"


def repositories(size: Size) -> list[str]:
    return [f"r{place:02}" for place in range(size.repositories)]


def plan_of(seed: int, size: Size) -> list[Story]:
    """Stories in the order of their beginning; as many eligible ones as tasks are wanted."""
    dice = random.Random(seed)
    names = repositories(size)
    stories: list[Story] = []
    eligible = 0
    while eligible < size.tasks:
        name, repo = f"Job {len(stories)}", dice.choice(names)
        if dice.random() < STRANGERS:
            stories.append(Story(name, repo, "eve", "stranger", ()))
            continue
        eligible += 1
        kind = _kind(dice, eligible, size.kinds or tuple(WAYS))
        steps = dice.choice(WAYS[kind][1])
        if "pull" in steps:
            steps = (*steps, *dice.choice(REVIEWS), *dice.choice(ENDS))
        author, label = dice.choice(["alice", "bob"]), dice.choice(LABELS)
        stories.append(Story(name, repo, author, kind, steps, label))
    return stories


def _kind(dice: random.Random, place: int, first: tuple[str, ...]) -> str:
    """Return the first kinds in their order, so that a small campaign has them; then by weight."""
    if place <= len(first):
        return first[place - 1]
    kinds = list(WAYS)
    return dice.choices(kinds, [WAYS[kind][0] for kind in kinds])[0]
