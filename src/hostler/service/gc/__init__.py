"""Housekeeping: what is old and of no more use goes; what is live, dirty or young stays."""

from hostler.service.gc.collecting import collect
from hostler.service.gc.premises import Premises, premises
from hostler.service.gc.report import Found, Kind, Swept
from hostler.service.gc.rules import Why

__all__ = ["Found", "Kind", "Premises", "Swept", "Why", "collect", "premises"]
