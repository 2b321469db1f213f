"""Filters and results for dead letters."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple, TypedDict

import msgspec

from quiver.client.produce.payload import key_bytes
from quiver.model.dead_letter import (
    DeadLetter,
    DeadLetterCursor,
    DeadLetterFilter,
    DeadLetterId,
    parse_dead_letter_id,
)
from quiver.model.errors import InvalidRequest
from quiver.model.position import parse_position
from quiver.model.times import Time, parse_time_ms

DeadLetterRef = DeadLetter | DeadLetterId | str


class DeadLetterOptions(TypedDict, total=False):
    """Which dead letters are meant; without a filter, all."""

    ids: Iterable[DeadLetterRef] | DeadLetterRef
    """Dead letters, or their ids: `0:42`."""
    partition: int
    group: str
    reason: str
    """max_attempts, rejected or expired."""
    key: bytes | str
    contains: bytes | str
    """Text or bytes that are in the value or in the last error."""
    from_time: Time | timedelta
    to_time: Time | timedelta
    """By the time of dead-lettering, inclusive: RFC 3339, epoch milliseconds, or a time ago (`-2h`)."""


class DeadLetterPage(msgspec.Struct, frozen=True):
    """A page of dead letters; iterate over it. Pass `next` as `after` to get the next page; it is None on the last
    page."""

    messages: list[DeadLetter]
    total: int
    """The number of dead letters in the topic, whatever the filter."""
    next: str | None

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


class TakenDeadLetters(NamedTuple):
    """Dead letters that were redriven or purged, or (after a dry run) would be."""

    dead_letter_count: int
    ids: list[str]
    """The first thousand ids."""
    missing: list[str]
    """Ids that were given and do not exist, or no longer."""


def dead_letter_filter(options: DeadLetterOptions, now_ms: int) -> DeadLetterFilter:
    """Raises InvalidRequest with the invalid option."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    unknown = given.keys() - DeadLetterOptions.__annotations__.keys()
    if unknown:
        raise InvalidRequest(problem=f"dead letters cannot be filtered by {', '.join(sorted(unknown))}")
    if "ids" in given:
        given["ids"] = _ids(given["ids"])
    for name in ("key", "contains"):
        if name in given:
            given[name] = key_bytes(given[name])
    for name in ("from_time", "to_time"):
        if name in given:
            given[f"{name}_ms"] = _time_ms(given.pop(name), now_ms, name)
    return DeadLetterFilter(**given)


def cursor_text(cursor: DeadLetterCursor | None) -> str | None:
    return None if cursor is None else str(cursor)


def id_texts(ids: Iterable[tuple[int, int]]) -> list[str]:
    return [str(DeadLetterId(*id)) for id in ids]


def _ids(ids: Any) -> list[DeadLetterId]:
    names = [ids] if isinstance(ids, DeadLetter | DeadLetterId | str) else list(ids)
    return [name.id if isinstance(name, DeadLetter) else parse_dead_letter_id(str(name)) for name in names]


def _time_ms(value: Any, now_ms: int, what: str) -> int:
    if isinstance(value, timedelta) or (isinstance(value, str) and value.startswith("-")):
        return parse_position(value, now_ms, what).value
    return parse_time_ms(value, what)
