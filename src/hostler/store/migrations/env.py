"""Alembic's entry: runs the migrations on the connection that `migrate.py` has prepared."""

from __future__ import annotations

from alembic import context

from hostler.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite changes tables by building them anew.
    render_as_batch=True,
    # True on SQLite as well, since we begin our transactions ourselves.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
