"""Entities by id, unique name and group; groups stay sorted, so any page costs the same."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

Key = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Entity:
    """Something GitHub keeps. Frozen: a change is a new version made with `replace`."""

    kind: ClassVar[str] = ""
    # Whether it is part of saved states.
    saved: ClassVar[bool] = True
    id: int

    def names(self) -> tuple[Key, ...]:
        """Unique keys of this entity inside its kind, besides the id."""
        return ()

    def groups(self) -> tuple[Key, ...]:
        """Return the lists it appears in, such as ("repo", 7)."""
        return ()

    def face(self) -> Hashable:
        """Return what other entities' JSON shows of it; None where nothing does."""
        return None

    def moment(self, order: str) -> int:
        """Return the second by which it is sorted for `order` (created or updated)."""
        return int(getattr(self, f"{order}_at", 0))


E = TypeVar("E", bound=Entity)


class EntityFilter(Hashable, Protocol):
    """A filter; hashable, so that its result can be kept until the list changes."""

    def __call__(self, item: Any, /) -> bool: ...


class CollectionView:
    """A stretch of a sorted list of (moment, id), forwards or backwards."""

    __slots__ = ("_collection", "_high", "_keys", "_low", "_reverse")

    def __init__(
        self, collection: Collection, keys: list[tuple[int, int]], low: int, reverse: bool
    ) -> None:
        self._collection = collection
        self._keys = keys
        self._low = low
        self._high = len(keys)
        self._reverse = reverse

    def __len__(self) -> int:
        return self._high - self._low

    def cut(self, offset: int, count: int) -> list[Any]:
        """Return up to `count` entities from `offset` on."""
        if self._reverse:
            end = max(self._high - offset, self._low)
            keys = self._keys[max(end - count, self._low) : end][::-1]
        else:
            start = self._low + offset
            keys = self._keys[start : min(start + count, self._high)]
        items = self._collection.items
        return [items[key[1]] for key in keys]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.cut(0, len(self)))


class Collection:
    """One group of entities, with every asked-for order kept sorted from then on."""

    __slots__ = ("_orders", "_views", "items")

    def __init__(self) -> None:
        self.items: dict[int, Entity] = {}
        self._orders: dict[str, list[tuple[int, int]]] = {}
        self._views: dict[Hashable, list[tuple[int, int]]] = {}

    def put(self, item: Entity) -> None:
        """Add an entity or a new version of it."""
        self.remove(item.id)
        self.items[item.id] = item
        for order, keys in self._orders.items():
            insort(keys, (_sort_time(item, order), item.id))

    def remove(self, item_id: int) -> None:
        """Take an entity out, if it is here."""
        self._views.clear()
        old = self.items.pop(item_id, None)
        if old is None:
            return
        for order, keys in self._orders.items():
            del keys[bisect_left(keys, (_sort_time(old, order), item_id))]

    def select(
        self,
        order: str = "id",
        *,
        descending: bool = False,
        since: int | None = None,
        where: EntityFilter | None = None,
    ) -> CollectionView:
        """Return those changed at `since` or later that pass `where`, by id, created or updated."""
        keys = self._sorted(order)
        if where is None and (since is None or order == "updated"):
            low = 0 if since is None else bisect_left(keys, (since, -1))
            return CollectionView(self, keys, low, descending)
        name = (order, since, where)
        found = self._views.get(name)
        if found is None:
            found = [key for key in keys if self._passes(key[1], since, where)]
            if len(self._views) >= 64:
                self._views.clear()
            self._views[name] = found
        return CollectionView(self, found, 0, descending)

    def _passes(self, item_id: int, since: int | None, where: EntityFilter | None) -> bool:
        item = self.items[item_id]
        if since is not None and item.moment("updated") < since:
            return False
        return where is None or where(item)

    def _sorted(self, order: str) -> list[tuple[int, int]]:
        keys = self._orders.get(order)
        if keys is None:
            keys = sorted((_sort_time(item, order), item.id) for item in self.items.values())
            self._orders[order] = keys
        return keys


def _sort_time(item: Entity, order: str) -> int:
    return 0 if order == "id" else item.moment(order)


_EMPTY = Collection()


class Tables:
    """Everything of every kind: by id, by unique name, by group."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[int, Entity]] = {}
        self._names: dict[tuple[str, Key], int] = {}
        self._groups: dict[tuple[str, Key], Collection] = {}
        # Grows when something that other entities' JSON shows has changed.
        self.epoch = 0

    def get(self, kind: type[E], item_id: int) -> E | None:
        """Return the entity of this id."""
        return self._rows.get(kind.kind, {}).get(item_id)  # type: ignore[return-value]

    def find(self, kind: type[E], *name: Hashable) -> E | None:
        """Return the entity of this unique name."""
        item_id = self._names.get((kind.kind, name))
        return None if item_id is None else self.get(kind, item_id)

    def has(self, kind: str, item_id: int) -> bool:
        """Return whether this id is taken."""
        return item_id in self._rows.get(kind, ())

    def all(self, kind: type[E]) -> list[E]:
        """Return every entity of a kind, in the order of their making."""
        return list(self._rows.get(kind.kind, {}).values())  # type: ignore[arg-type]

    def everything(self) -> list[Entity]:
        """Return every entity of every kind."""
        return [item for rows in self._rows.values() for item in rows.values()]

    def group(self, kind: type[E], *key: Hashable) -> Collection:
        """Return the list of this name; empty if nothing is in it."""
        return self._groups.get((kind.kind, key), _EMPTY)

    def put(self, item: Entity) -> None:
        """Add an entity, or replace its older version."""
        rows = self._rows.setdefault(item.kind, {})
        old = rows.get(item.id)
        rows[item.id] = item
        if old is not None:
            self._unlink(old, item)
        if old is None or old.face() != item.face():
            self.epoch += item.face() is not None
        for name in item.names():
            self._names[(item.kind, name)] = item.id
        for key in item.groups():
            self._groups.setdefault((item.kind, key), Collection()).put(item)

    def remove(self, item: Entity) -> None:
        """Take an entity out, if it is here."""
        old = self._rows.get(item.kind, {}).pop(item.id, None)
        if old is not None:
            self.epoch += old.face() is not None
            self._unlink(old, None)

    def _unlink(self, old: Entity, new: Entity | None) -> None:
        names = new.names() if new else ()
        groups = new.groups() if new else ()
        for name in old.names():
            if name not in names and self._names.get((old.kind, name)) == old.id:
                del self._names[(old.kind, name)]
        for key in old.groups():
            if key not in groups:
                self._groups[(old.kind, key)].remove(old.id)
