"""Queue the labels of the settings that a repository lacks."""

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
    """Return the labels of the settings as actions, with their descriptions."""
    fields = Labels.model_fields
    return [
        CreateLabel(getattr(labels, name), _LABEL_COLOURS[name], fields[name].description or "")
        for name in fields
    ]


def missing_labels(labels: Labels, there: Iterable[str]) -> list[CreateLabel]:
    """Return those that a repository lacks. GitHub ignores case in label names."""
    known = {name.lower() for name in there}
    return [action for action in wanted_labels(labels) if action.name.lower() not in known]


def queue_labels(tx: Transaction, repo: RepoName, deeds: Iterable[CreateLabel]) -> list[str]:
    """Queue missing labels, each once in spite of repeated calls. Return their tokens."""
    return [
        enqueue_action(
            tx,
            repo,
            action,
            token=_label_token(tx, repo, action),
            lane=Lane.OPERATOR,
            source="repo add",
        ).token
        for action in deeds
    ]


def _label_token(tx: Transaction, repo: RepoName, action: CreateLabel) -> str:
    """Return the token of the pending write, else the next one: a label may have been removed."""
    for turn in count():
        token = build_token("label", action.name.lower(), turn)
        known = find_write(tx, repo, token)
        if known is None or not known.settled:
            return token
    raise AssertionError("there is always a next number")
