"""The database: transactions, tables, rows, migrations and backups, on SQLite and PostgreSQL.

In reading order: `store` opens the database, `transaction` runs statements, `schema` has all
tables. Rows, one module per subject: `repositories`, `inbox`, `outbox`, `tasks`, `task_lookup`,
`dependencies`, `runs`, `pull_requests`, `governor`, `operator`; `retention` deletes old ones.
`engine` has the two backends, `admin` migrates, backs up and inspects; `checks` is for `doctor`.

No other package touches tables, and this one knows no rules of its callers. A new migration goes
into `migrations/versions`, its number into `admin/revision.py` and its tables into `schema.py`; a
test compares the three. Promises, states and traps: docs/internals/store.md.
"""

from hostler.store.engine.sqlite import Patience
from hostler.store.repositories import Repo, Repository, known_repositories
from hostler.store.store import Store, open_store
from hostler.store.transaction import Transaction

__all__ = [
    "Patience",
    "Repo",
    "Repository",
    "Store",
    "Transaction",
    "known_repositories",
    "open_store",
]
