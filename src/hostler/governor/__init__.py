"""Whether one more agent may start: pools, leases, demand, fair share."""

from hostler.governor.errors import LeaseLost, NoPlace
from hostler.governor.gates import Ask, Denied, Gate, Granted, SharedBy
from hostler.governor.holders import Here, look_around
from hostler.governor.learning import News, hear, reseed, reset
from hostler.governor.leasing import (
    acquire,
    attach,
    count_again,
    give_back,
    hold,
    lend,
    preview,
    release,
    take_back,
    width_warning,
)
from hostler.governor.parking import park, resume
from hostler.governor.policy import Policy, policy_of, read_policy
from hostler.governor.pools import pool_key, pool_of
from hostler.governor.pruning import prune
from hostler.governor.status import status
from hostler.governor.wishing import demand, drop_demand

__all__ = [
    "Ask",
    "Denied",
    "Gate",
    "Granted",
    "Here",
    "LeaseLost",
    "News",
    "NoPlace",
    "Policy",
    "SharedBy",
    "acquire",
    "attach",
    "count_again",
    "demand",
    "drop_demand",
    "give_back",
    "hear",
    "hold",
    "lend",
    "look_around",
    "park",
    "policy_of",
    "pool_key",
    "pool_of",
    "preview",
    "prune",
    "read_policy",
    "release",
    "reseed",
    "reset",
    "resume",
    "status",
    "take_back",
    "width_warning",
]
