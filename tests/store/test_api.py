"""What other rooms may rely on."""

from __future__ import annotations

import inspect
from pathlib import Path

import hostler.store as store
from hostler.store import Repo, Store, Transaction

FOLDER = Path(store.__file__).parent


def public(item):
    return sorted(name for name, _ in inspect.getmembers(item) if not name.startswith("_"))


def test_the_room_offers_exactly_this():
    assert store.__all__ == [
        "Patience",
        "Repo",
        "Repository",
        "Store",
        "Transaction",
        "known_repositories",
        "open_store",
    ]
    assert public(Store) == [
        "change_mark",
        "close",
        "place",
        "read",
        "repo",
        "wait_for_change",
        "write",
    ]
    assert {"constant", "execute", "now", "stamp"} <= set(public(Transaction))
    assert public(Repo) == [
        "add",
        "get",
        "get_action_token",
        "get_poll_cursor",
        "ingest_feedback_scan_batch",
        "name",
        "record_action_token_failed",
        "record_action_token_observed",
        "record_action_token_planned",
        "record_action_token_posted",
        "rename",
        "seed_feedback_cursors_from_full_scan",
        "upsert_poll_cursor",
    ]


def test_the_package_names_all_its_modules():
    described = store.__doc__ or ""
    for path in FOLDER.iterdir():
        name = path.stem
        if (path.suffix == ".py" or (path / "__init__.py").exists()) and not name.startswith("_"):
            assert f"`{name}`" in described, name
