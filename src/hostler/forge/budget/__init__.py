"""How much of GitHub's limits is used, and who goes first."""

from hostler.forge.budget.accounts import PATIENCE, Accounts, Standing
from hostler.forge.budget.caps import Caps, Kind

__all__ = ["PATIENCE", "Accounts", "Caps", "Kind", "Standing"]
