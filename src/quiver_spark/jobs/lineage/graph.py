"""The ways of messages as a drawing and as a tree of text. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Step(NamedTuple):
    """From one message to the next."""

    origin: str
    place: str
    by: str


def mermaid(edges: Sequence[Mapping[str, Any]]) -> str:
    """A flow chart in Mermaid's language, which GitHub and many editors draw."""
    names = list(dict.fromkeys(name for edge in edges for name in (edge["source"], edge["target"])))
    number = {name: place for place, name in enumerate(names)}
    nodes = [f'  t{place}["{_quoted(name)}"]' for name, place in number.items()]
    arrows = [
        f'  t{number[edge["source"]]} -->|"{edge["by"]}: {edge["messages"]:,}"| t{number[edge["target"]]}'
        for edge in edges
    ]
    return "\n".join(("flowchart LR", *nodes, *arrows, ""))


def tree_lines(message: str, found: Sequence[Step]) -> list[str]:
    """The oldest message that `message` came from, and below each what came from it."""
    origins = {step.place: step.origin for step in found}
    root, seen = message, {message}
    while root in origins and origins[root] not in seen:
        root = origins[root]
        seen.add(root)
    return [*_below(root, message, "", found, 0, {root}), ""]


def _below(place: str, message: str, by: str, found: Sequence[Step], depth: int, seen: set[str]) -> Iterator[str]:
    mark = "  <- this message" if place == message else ""
    yield f"{'  ' * depth}{place}{f' ({by})' if by else ''}{mark}"
    for step in found:
        if step.origin == place and step.place not in seen:
            seen.add(step.place)
            yield from _below(step.place, message, step.by, found, depth + 1, seen)


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;")
