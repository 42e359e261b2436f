"""What changed on GitHub, into the inbox."""

from hostler.forge.feeds.cursors import Window
from hostler.forge.feeds.inbox import consume, pending
from hostler.forge.feeds.scan import Scanned, scan

__all__ = ["Scanned", "Window", "consume", "pending", "scan"]
