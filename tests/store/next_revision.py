"""A made-up revision after the program's own, so that tests can upgrade a database."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from hostler.store.admin import backup, migrate, revision
from hostler.store.admin.migrate import MIGRATIONS, Plan

OLD = revision.HEAD
NEXT = f"{int(OLD) + 1:04}"
# It leaves a row, and no table: the schema stays that of the program.
MIGRATION = """
from alembic import op
revision, down_revision, branch_labels, depends_on = "{next}", "{old}", None, None

def upgrade():
    {body}
"""
LEAVE_A_ROW = "op.execute(\"INSERT INTO store_meta (key, value) VALUES ('next', 'yes')\")"


def write_migrations(folder: Path, body: str) -> Path:
    """Copy the program's migrations, and add one."""
    migrations = folder / "100% migrations"
    shutil.copytree(MIGRATIONS, migrations)
    text = MIGRATION.format(body=body, next=NEXT, old=OLD)
    (migrations / "versions" / f"{NEXT}_more.py").write_text(text)
    return migrations


@cache
def next_migrations() -> Path:
    return write_migrations(Path(mkdtemp()), LEAVE_A_ROW)


def next_plan(*, with_backup: bool = True) -> Plan:
    """Return a plan to upgrade to the next revision."""
    return Plan(to=NEXT, migrations=next_migrations(), with_backup=with_backup)


def know_next_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process a program with the next revision: databases at OLD are outdated."""
    known = (*revision.REVISIONS, NEXT)
    monkeypatch.setattr(revision, "REVISIONS", known)
    monkeypatch.setattr(backup, "REVISIONS", known)
    monkeypatch.setattr(revision, "HEAD", NEXT)
    monkeypatch.setattr(migrate, "Plan", next_plan)
