"""Dead letters as responses show them; large pages are encoded while they are sent."""

import struct
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.dead_letters.page import DeadLetterPage
from quiver.dead_letters.search import dead_letter_size
from quiver.gateways.http.media import JSON, Media
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, StreamedResponse
from quiver.gateways.http.routes.messages.message import MessageResponse, show_content, shown_time
from quiver.model.dead_letter import DeadLetter
from quiver.model.message import StoredMessage
from quiver.model.priority import NAMES

_RUN_MESSAGES = 250
_RUN_BYTES = 256 * 1024
"""Dead letters are encoded in runs of this size, small enough not to hold the event loop."""


class OriginalResponse(msgspec.Struct, kw_only=True):
    """Where a dead letter came from, and the group that gave it up."""

    topic: str
    partition: int
    offset: int
    timestamp: str
    group: str
    key: str | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    appended_at: str | None
    first_delivered: str | None


class DeadLetterResponse(MessageResponse, kw_only=True):
    """`partition` and `offset` are those in the dead-letter topic. Its `headers` are the message's own."""

    id: Annotated[str, Meta(description="partition:offset in the dead-letter topic.")]
    died_at: str
    reason: Annotated[str | None, Meta(description="max_attempts, rejected or expired.")]
    last_error: str | None
    attempts: int
    group: str | None
    original: OriginalResponse | None


class LettersResponse(msgspec.Struct, kw_only=True):
    """A page of dead letters."""

    messages: list[DeadLetterResponse]
    count: Annotated[int, Meta(description="Of this page.")]
    total: Annotated[int, Meta(description="All in the dead-letter topic, whatever the filter.")]
    dlq_topic: str
    next: Annotated[str | None, Meta(description="For `after`, to get the next page; null after the last one.")]


def page_response(request: Request, page: DeadLetterPage, dlq_topic: str) -> Response | StreamedResponse:
    following = None if page.next is None else str(page.next)
    size = sum(map(dead_letter_size, page.dead_letters))
    if len(page.dead_letters) <= _RUN_MESSAGES and size <= _RUN_BYTES:
        shown = [to_response(dead_letter) for dead_letter in page.dead_letters]
        response = LettersResponse(
            messages=shown, count=len(shown), total=page.total, dlq_topic=dlq_topic, next=following
        )
        return Response(response)
    request.hold(size)
    media = request.response_media
    tail = {"count": len(page.dead_letters), "total": page.total, "dlq_topic": dlq_topic, "next": following}
    write = _json_page if media is JSON else _packed_page
    return StreamedResponse(write(media, page.dead_letters, tail), media)


def to_response(dead_letter: DeadLetter) -> DeadLetterResponse:
    shown = DeadLetterResponse(
        id=str(dead_letter.id),
        partition=dead_letter.partition,
        offset=dead_letter.offset,
        timestamp=shown_time(dead_letter.timestamp_ms),
        appended_at=shown_time(dead_letter.died_at_ms),
        died_at=shown_time(dead_letter.died_at_ms),
        priority=NAMES[dead_letter.priority],
        headers={},
        reason=dead_letter.reason or None,
        last_error=dead_letter.last_error or None,
        attempts=dead_letter.attempts,
        group=dead_letter.group or None,
        original=None,
    )
    show_content(shown, _stored(dead_letter))
    shown.original = _original(dead_letter, shown)
    return shown


def _original(dead_letter: DeadLetter, shown: DeadLetterResponse) -> OriginalResponse | None:
    original = dead_letter.original
    if original is None:
        return None
    return OriginalResponse(
        topic=original.topic,
        partition=original.partition,
        offset=original.offset,
        timestamp=shown.timestamp,
        group=dead_letter.group,
        key=shown.key,
        key_base64=shown.key_base64,
        appended_at=_time(original.appended_at_ms),
        first_delivered=_time(original.first_delivered_ms),
    )


def _stored(dead_letter: DeadLetter) -> StoredMessage:
    return StoredMessage(
        partition=dead_letter.partition,
        offset=dead_letter.offset,
        timestamp_ms=dead_letter.timestamp_ms,
        append_time_ms=dead_letter.died_at_ms,
        key=dead_letter.key,
        value=dead_letter.value,
        headers=dead_letter.headers,
        priority=dead_letter.priority,
    )


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else shown_time(time_ms)


def _runs(dead_letters: Sequence[DeadLetter]) -> Iterator[list[DeadLetterResponse]]:
    run: list[DeadLetterResponse] = []
    size = 0
    for dead_letter in dead_letters:
        run.append(to_response(dead_letter))
        size += dead_letter_size(dead_letter)
        if len(run) >= _RUN_MESSAGES or size >= _RUN_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


async def _json_page(
    media: Media, dead_letters: Sequence[DeadLetter], tail: dict[str, object]
) -> AsyncGenerator[bytes, None]:
    before = b'{"messages":['
    for run in _runs(dead_letters):
        yield before + media.encode(run)[1:-1]
        before = b","
    yield b"]," + media.encode(tail)[1:]


async def _packed_page(
    media: Media, dead_letters: Sequence[DeadLetter], tail: dict[str, object]
) -> AsyncGenerator[bytes, None]:
    """MessagePack writes the length of a map or an array in front of it; a small map is its length in one byte."""
    yield bytes([0x80 + 1 + len(tail)]) + media.encode("messages") + b"\xdd" + struct.pack(">I", len(dead_letters))
    for run in _runs(dead_letters):
        yield b"".join(map(media.encode, run))
    yield media.encode(tail)[1:]
