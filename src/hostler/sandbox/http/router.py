"""Which handler answers a request: templates in a tree of path segments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from hostler.sandbox.http.call import ApiCall
    from hostler.sandbox.http.requests import SandboxResponse

Handler = Callable[["ApiCall"], "SandboxResponse | Awaitable[SandboxResponse]"]
REPO = "/repos/{owner}/{repo}"


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A template with its handler and what the core must see to before calling it.

    `access`: the permission that the caller needs on `call.repo` (for templates below /repos).
    `login`: whether somebody must be named even for reading. `creates`: whether it counts as
    making content for the secondary limit. `free`: costs nothing. `app`: takes an App's JWT.
    """

    method: str
    template: str
    handler: Handler
    access: str = "read"
    login: bool = False
    creates: bool = False
    free: bool = False
    app: bool = False
    issues: bool = False

    @property
    def in_repo(self) -> bool:
        """Whether the path names a repository."""
        return self.template.startswith(REPO)


_Leaf = tuple[ApiRoute, tuple[str, ...]]


@dataclass
class _Node:
    fixed: dict[str, _Node] = field(default_factory=dict)
    variable: _Node | None = None
    tail: dict[str, _Leaf] = field(default_factory=dict)
    here: dict[str, _Leaf] = field(default_factory=dict)


class ApiRouter:
    """Routes by method and path. `{name}` takes a segment, a last `{name...}` takes the rest."""

    def __init__(self) -> None:
        self._root = _Node()
        self.routes: list[ApiRoute] = []

    def route(self, method: str, template: str, **options: Any) -> Callable[[Handler], Handler]:
        """Register a handler: `@router.route("GET", REPO + "/labels")`."""

        def register(handler: Handler) -> Handler:
            self.add(ApiRoute(method, template, handler, **options))
            return handler

        return register

    def add(self, route: ApiRoute) -> None:
        """Register a route; those of a repository are served below /repositories/{id} too."""
        self.routes.append(route)
        self._place(route, route.template)
        if route.in_repo:
            self._place(route, "/repositories/{repository_id}" + route.template[len(REPO) :])

    def include(self, other: ApiRouter) -> None:
        """Take over another router's routes."""
        for route in other.routes:
            self.add(route)

    def match(self, method: str, path: str) -> tuple[ApiRoute, dict[str, str]] | None:
        """Return the route for a raw path, with its variables decoded; None if there is none."""
        parts = path.strip("/").split("/") if path.strip("/") else []
        wanted = "GET" if method == "HEAD" else method
        found = _find_leaf(self._root, parts, 0, wanted, [])
        if found is None:
            return None
        (route, names), values = found
        return route, dict(zip(names, values, strict=True))

    def _place(self, route: ApiRoute, template: str) -> None:
        node = self._root
        parts = template.strip("/").split("/") if template.strip("/") else []
        names = tuple(part.strip("{.}") for part in parts if part.startswith("{"))
        for part in parts:
            if part.endswith("...}"):
                return _set_leaf(node.tail, route, names)
            if part.startswith("{"):
                node.variable = node.variable or _Node()
                node = node.variable
            else:
                node = node.fixed.setdefault(part, _Node())
        return _set_leaf(node.here, route, names)


def _set_leaf(place: dict[str, _Leaf], route: ApiRoute, names: tuple[str, ...]) -> None:
    if route.method in place:
        raise ValueError(f"two handlers for {route.method} {route.template}")
    place[route.method] = (route, names)


def _find_leaf(
    node: _Node, parts: list[str], at: int, method: str, taken: list[str]
) -> tuple[_Leaf, list[str]] | None:
    if at == len(parts):
        here = node.here.get(method)
        return (here, taken) if here else None
    part = parts[at]
    fixed = node.fixed.get(part)
    if fixed is not None and (below := _find_leaf(fixed, parts, at + 1, method, taken)):
        return below
    if node.variable is not None and part:
        below = _find_leaf(node.variable, parts, at + 1, method, [*taken, unquote(part)])
        if below:
            return below
    tail = node.tail.get(method)
    return (tail, [*taken, unquote("/".join(parts[at:]))]) if tail else None
