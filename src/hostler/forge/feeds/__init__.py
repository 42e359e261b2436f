"""What changed on GitHub, into the inbox."""

from hostler.forge.feeds.cursors import Window
from hostler.forge.feeds.inbox import consume, pending
from hostler.forge.feeds.metering import Meter
from hostler.forge.feeds.polling import Plan, Poller, Scanned
from hostler.forge.feeds.scan import scan
from hostler.forge.feeds.tap import Tap

__all__ = [
    "Meter",
    "Plan",
    "Poller",
    "Scanned",
    "Tap",
    "Window",
    "consume",
    "pending",
    "scan",
]
