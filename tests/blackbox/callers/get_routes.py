"""Every GET route of the broker, read from its OpenAPI document, with values for what its path names."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

FILES = "/console/"
"""Files for browsers, not answers about what the broker holds."""
LEASING = {
    "/groups/{group}/poll",
    "/api/v1/pop",
    "/api/v1/pop/queue/{queue}",
    "/api/v1/pop/queue/{queue}/partition/{partition_name}",
}
"""GETs that do something: they lease messages, and are documented to."""

ENDLESS = {"/overview/stream", "/topics/{topic}/tail"}
"""Streams that go on until the client leaves."""


def get_routes(document: Mapping[str, Any]) -> list[str]:
    """The templates of all routes that only look."""
    return sorted(
        path
        for path, verbs in document["paths"].items()
        if "get" in verbs and path not in LEASING | ENDLESS and not path.startswith(FILES)
    )


def names_in(template: str) -> list[str]:
    return [part[1:-1] for part in template.split("/") if part.startswith("{")]


def filled(template: str, values: Mapping[str, Iterable[Any]]) -> Iterator[str]:
    """The route with every combination of the values; KeyError for a name that nobody has values for."""
    names = names_in(template)
    for chosen in itertools.product(*(values[name] for name in names)):
        path = template
        for name, value in zip(names, chosen, strict=True):
            path = path.replace(f"{{{name}}}", str(value))
        yield path
