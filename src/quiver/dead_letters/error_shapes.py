"""Dead letters grouped by the shape of their error: what differs from message to message is replaced."""

import re
from collections.abc import AsyncIterator
from typing import NamedTuple

from quiver.model.dead_letter import DeadLetter, DeadLetterId

_LONGEST = 300
_MOST_GROUPS = 1_000
_QUOTED = re.compile(r"\"[^\"\n]{0,200}\"|(?<!\w)'[^'\n]{0,200}'")
_IDENTIFIER = re.compile(
    r"\b(?=[0-9a-fA-F-]*\d)[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){2,6}[0-9a-fA-F]*\b|\b0x[0-9a-fA-F]+\b"
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def error_shape(error: str) -> str:
    """An error without its numbers, identifiers and quoted parts, so that errors of one kind have one shape."""
    text = _QUOTED.sub("'*'", error[:_LONGEST])
    text = _IDENTIFIER.sub("#", text)
    return _NUMBER.sub("#", text)


class ErrorGroup(NamedTuple):
    shape: str
    reason: str
    group: str
    """The queue group that gave the messages up."""
    dead_letter_count: int
    first_ms: int
    last_ms: int
    """When the first and the last of them became dead letters."""
    example: str
    """The error of the last one, and its id."""
    example_id: DeadLetterId


class ErrorGroups(NamedTuple):
    groups: list[ErrorGroup]
    """Those with the most dead letters first."""
    looked_at: int
    is_complete: bool
    """False when there are more dead letters, or more groups, than are looked at."""


async def grouped(dead_letters: AsyncIterator[DeadLetter], limit: int) -> ErrorGroups:
    """Of at most `limit` dead letters, which come with the newest first."""
    found: dict[tuple[str, str, str], ErrorGroup] = {}
    looked_at, is_complete = 0, True
    async for one in dead_letters:
        if looked_at >= limit:
            is_complete = False
            break
        looked_at += 1
        place = (error_shape(one.last_error), one.reason, one.group)
        known = found.get(place)
        if known is not None:
            found[place] = known._replace(
                dead_letter_count=known.dead_letter_count + 1, first_ms=min(known.first_ms, one.died_at_ms)
            )
        elif len(found) < _MOST_GROUPS:
            found[place] = ErrorGroup(*place, 1, one.died_at_ms, one.died_at_ms, one.last_error[:_LONGEST], one.id)
        else:
            is_complete = False
    groups = sorted(found.values(), key=lambda group: (-group.dead_letter_count, -group.last_ms))
    return ErrorGroups(groups, looked_at, is_complete)
