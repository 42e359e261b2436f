"""Rows of what is learned of pools: text that only the governor looks into."""

from __future__ import annotations

from typing import Any

from hostler.store.transaction import Transaction

PUT = """
    INSERT INTO pools (pool, overlay) VALUES (?, ?)
    ON CONFLICT (pool) DO UPDATE SET overlay = excluded.overlay
"""
FIND = "SELECT overlay FROM pools WHERE pool = ?"
ALL = "SELECT pool, overlay FROM pools WHERE overlay <> ''"


def put_overlay(tx: Transaction, pool: str, overlay: str) -> None:
    """Store what is known of a pool, in place of what was known before."""
    tx.constant(PUT, (pool, overlay))


def find_overlay(tx: Transaction, pool: str) -> str:
    """What is known of a pool; empty: nothing."""
    return next((str(row[0]) for row in tx.constant(FIND, (pool,))), "")


def all_overlays(tx: Transaction) -> dict[str, str]:
    """The same of all pools of which something is known."""
    found: list[Any] = list(tx.constant(ALL))
    return {row[0]: row[1] for row in found}
