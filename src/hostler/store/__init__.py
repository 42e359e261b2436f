"""The one database: transactions, migrations, backups, on SQLite and PostgreSQL."""

from hostler.store.repo import Repo
from hostler.store.repositories import Repository, known_repositories
from hostler.store.store import Store, open_store
from hostler.store.transaction import Transaction
from hostler.store.writers import Patience

__all__ = [
    "Patience",
    "Repo",
    "Repository",
    "Store",
    "Transaction",
    "known_repositories",
    "open_store",
]
