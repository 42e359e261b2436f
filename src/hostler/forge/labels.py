"""Queue the labels that the settings name and a repository lacks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from hostler.config.settings import Labels
from hostler.forge.actions import CreateLabel
from hostler.forge.outbox.queue import build_token, enqueue_action
from hostler.model import RepoName
from hostler.store.outbox import Lane, find_write
from hostler.store.transaction import Transaction

_LABEL_COLOURS = {"design": "1d76db", "bugfix": "d73a4a", "small_job": "0e8a16", "ignore": "c5c5c5"}


def wanted_labels(labels: Labels) -> list[CreateLabel]:
    """The labels that the settings name, as deeds; what they mean is told on GitHub too."""
    fields = Labels.model_fields
    return [
        CreateLabel(getattr(labels, name), _LABEL_COLOURS[name], fields[name].description or "")
        for name in fields
    ]


def missing_labels(labels: Labels, there: Iterable[str]) -> list[CreateLabel]:
    """Those that a repository lacks. GitHub reads names of labels without regard to case."""
    known = {name.lower() for name in there}
    return [deed for deed in wanted_labels(labels) if deed.name.lower() not in known]


def queue_labels(tx: Transaction, repo: RepoName, deeds: Iterable[CreateLabel]) -> list[str]:
    """Queue labels that are missing, each once however often this is asked; their tokens."""
    return [
        enqueue_action(
            tx,
            repo,
            deed,
            token=_label_token(tx, repo, deed),
            lane=Lane.OPERATOR,
            source="repo add",
        ).token
        for deed in deeds
    ]


def _label_token(tx: Transaction, repo: RepoName, deed: CreateLabel) -> str:
    """The token that is under way, else the next one: a label that was made may be removed."""
    for turn in count():
        token = build_token("label", deed.name.lower(), turn)
        known = find_write(tx, repo, token)
        if known is None or not known.settled:
            return token
    raise AssertionError("there is always a next number")
