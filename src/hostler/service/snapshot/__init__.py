"""The whole house at one moment, read-only: what every face shows."""

from hostler.service.snapshot.at_work import AtWork
from hostler.service.snapshot.feeds import FeedRead
from hostler.service.snapshot.history import WINDOWS, History, Record, history
from hostler.service.snapshot.looking import Lookout
from hostler.service.snapshot.needy import PERSON, Needy
from hostler.service.snapshot.pulls import Followed
from hostler.service.snapshot.queue import Queued
from hostler.service.snapshot.repositories import Watched
from hostler.service.snapshot.whole import Snapshot, snapshot

__all__ = [
    "PERSON",
    "WINDOWS",
    "AtWork",
    "FeedRead",
    "Followed",
    "History",
    "Lookout",
    "Needy",
    "Queued",
    "Record",
    "Snapshot",
    "Watched",
    "history",
    "snapshot",
]
