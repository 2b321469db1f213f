"""The table of docs/architecture.md that says of each call of a gateway whether it is awaited, and where it goes."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pytest

import quiver.gateways
from quiver.broker.broker import Broker
from quiver.storage.memory.storage import MemoryStorage

ROUTES = {"unit", "group", "producer", "controller", "scatter", "local"}
PLAIN_VALUES = {
    "clock",
    "clock.monotonic",
    "clock.now_ms",
    "limits",
    "limits.fetch_bytes",
    "limits.for_messages",
    "limits.frame_bytes",
    "node_id",
}
"""Of this process: they are handed to gateways, and nobody else is asked for them."""
_TABLE = re.compile(r"<!-- facade -->\n(.*?)<!-- end of facade -->", re.DOTALL)
_PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"


class Row(NamedTuple):
    awaited: str
    route: str


def documented() -> dict[str, Row]:
    found = _TABLE.search(_PAGE.read_text())
    assert found is not None, "the table is gone"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()[2:]]
    return {
        name: Row(awaited, route) for _, calls, awaited, route in rows for name in re.findall(r"`([^`]+)`", calls)
    }


def called() -> set[str]:
    """What gateways use of the broker: `broker.delays.page` is `delays.page`."""
    modules = Path(quiver.gateways.__path__[0]).rglob("*.py")
    return {name for path in modules for name in _used(ast.parse(path.read_text()))} - PLAIN_VALUES


def _used(tree: ast.Module) -> Iterator[str]:
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        aliases = {}
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _chain(node.value, {}):
                aliases[node.targets[0].id] = _chain(node.value, {})
        inner = {id(node.value) for node in ast.walk(scope) if isinstance(node, ast.Attribute)}
        aliased = {id(node.value) for node in ast.walk(scope) if isinstance(node, ast.Assign) and aliases}
        for node in ast.walk(scope):
            chain = _chain(node, aliases) if isinstance(node, ast.Attribute) else []
            if chain and id(node) not in inner and not (id(node) in aliased and _is_part(chain)):
                yield ".".join(chain)


def _is_part(chain: list[str]) -> bool:
    """Whether it is a part of the broker with calls of its own: one that was given a shorter name."""
    return not callable(_member(".".join(chain)))


def _chain(node: ast.AST, aliases: dict[str, list[str]]) -> list[str]:
    """The names after the broker; empty for what is something else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        if node.attr == "_broker":
            return names[::-1]
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and node.id in aliases:
        return [*aliases[node.id], *names[::-1]]
    return names[::-1] if isinstance(node, ast.Name) and node.id == "broker" else []


def _member(name: str) -> object:
    return reduce(getattr, name.split("."), _BROKER)


_BROKER = Broker(MemoryStorage())


def test_the_table_has_what_gateways_call_and_nothing_else() -> None:
    assert called() == documented().keys()


@pytest.mark.parametrize("name", sorted(documented()))
def test_a_call_is_awaited_unless_it_stays_in_the_process(name: str) -> None:
    awaited, route = documented()[name]
    member = _member(name)
    assert route in ROUTES
    assert inspect.iscoroutinefunction(member) == (awaited == "yes")
    returned = inspect.signature(member).return_annotation if callable(member) else None
    match awaited:
        case "future":  # queued before it returns, so that calls made in order are written in order
            assert "Future" in str(returned)
        case "told":  # nobody waits for the end of it
            assert returned is None
        case "no":
            assert route == "local"
        case _:
            assert awaited == "yes"
