"""Tables of what the feeds remember beside their cursors."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from hostler.store.columns import BIG, StampNow
from hostler.store.metadata import metadata

# The pages of the last complete reading of a list, with their ETags, as JSON.
feed_chains = Table(
    "github_feed_chains",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("surface", Text, primary_key=True),
    Column("scope_number", BIG, primary_key=True, autoincrement=False),
    Column("pages", Text, nullable=False),
    Column("updated_at", Text, nullable=False, server_default=StampNow()),
)

# Pull requests that a feed has shown to be changed, until they were fetched.
moved_pulls = Table(
    "github_moved_pulls",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("pr_number", BIG, primary_key=True, autoincrement=False),
    Column("marked_at", Text, nullable=False, server_default=StampNow()),
)
