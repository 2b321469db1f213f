"""Finds what a path leads to."""

from collections.abc import Mapping

from quiver.gateways.http.operation import Operation, Routes
from quiver.model.errors import MethodNotAllowed, RouteNotFound

_SHOWN_PATH = 200
_REMEMBERED_PATHS = 1_000


class Resource:
    """What is at one path: an operation per method."""

    __slots__ = ("_allowed", "_operations", "path")

    def __init__(self, path: str, operations: Mapping[str, Operation]) -> None:
        self.path = path
        self._operations = dict(operations)
        if "GET" in operations:
            self._operations["HEAD"] = operations["GET"]
        self._allowed = ", ".join(self._operations)

    def operation(self, method: str, path: str) -> Operation:
        operation = self._operations.get(method)
        if operation is None:
            raise MethodNotAllowed(path=path, method=method, allowed=self._allowed)
        return operation


class _Node:
    """The part of the tree below one part of a path."""

    __slots__ = ("any", "by_name", "resource")

    def __init__(self) -> None:
        self.by_name: dict[str, _Node] = {}
        self.any: _Node | None = None
        """Below a part that the route names, such as {topic}."""
        self.resource: tuple[Resource, list[str]] | None = None
        """With the names of the parts on the way here that may be anything."""


class Router:
    """A part that is spelled out in a route goes before one that may be anything."""

    def __init__(self, routes: Routes) -> None:
        self._root = _Node()
        self._found: dict[str, tuple[Resource, Mapping[str, str]]] = {}
        """Paths that were found: most clients use a few."""
        for path, operations in routes.items():
            self._add(path, Resource(path, operations))

    def _add(self, path: str, resource: Resource) -> None:
        node, names = self._root, []
        for part in path.split("/")[1:]:
            if part.startswith("{"):
                names.append(part[1:-1])
                if node.any is None:
                    node.any = _Node()
                node = node.any
            else:
                node = node.by_name.setdefault(part, _Node())
        node.resource = resource, names

    def find(self, path: str, method: str) -> tuple[Resource, Mapping[str, str]]:
        """The resource and the parts of the path that its route names, still quoted; RouteNotFound."""
        known = self._found.get(path)
        if known is not None:
            return known
        parts = path.split("/")
        values: list[str] = []
        found = _search(self._root, parts, 1, values) if parts[0] == "" else None
        if found is None:
            raise RouteNotFound(method=method, path=path[:_SHOWN_PATH])
        resource, names = found
        result = resource, dict(zip(names, values, strict=True))
        if len(path) <= _SHOWN_PATH:
            if len(self._found) >= _REMEMBERED_PATHS:
                self._found.clear()
            self._found[path] = result
        return result


def _search(node: _Node, parts: list[str], at: int, values: list[str]) -> tuple[Resource, list[str]] | None:
    if at == len(parts):
        return node.resource
    part = parts[at]
    named = node.by_name.get(part)
    if named is not None:
        found = _search(named, parts, at + 1, values)
        if found is not None:
            return found
    if node.any is None or not part:
        return None
    values.append(part)
    found = _search(node.any, parts, at + 1, values)
    if found is None:
        values.pop()
    return found
