"""Webhooks: hints from GitHub that a repository is worth a look."""

from hostler.service.webhooks.opening import is_loopback, webhooks
from hostler.service.webhooks.receiver import Receiver

__all__ = ["Receiver", "is_loopback", "webhooks"]
