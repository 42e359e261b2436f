"""Writes to GitHub: queued with their cause, made once."""

from hostler.forge.outbox.queue import enqueue, token_of
from hostler.forge.outbox.reconciling import Reconciler
from hostler.forge.outbox.rules import Pace
from hostler.forge.outbox.sender import Sender
from hostler.forge.outbox.settling import Settled

__all__ = ["Pace", "Reconciler", "Sender", "Settled", "enqueue", "token_of"]
