"""The operator's settings: one typed place for every key, its default, range and meaning."""

from hostler.config.load import Loaded, find, load, read
from hostler.config.pools import DEFAULT_POOL, PoolCaps, load_pools
from hostler.config.settings import Agent, Repo, Settings

__all__ = [
    "DEFAULT_POOL",
    "Agent",
    "Loaded",
    "PoolCaps",
    "Repo",
    "Settings",
    "find",
    "load",
    "load_pools",
    "read",
]
