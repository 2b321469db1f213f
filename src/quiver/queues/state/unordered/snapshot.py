"""The state of an unordered group as bytes, in chunks of a few hundred entries. Pure."""

from collections.abc import Iterator, Sequence

import msgspec

from quiver.queues.journal.replayed_times import brought_back
from quiver.queues.state.unordered.in_flight import LEASED, WAITING, InFlightRun, Unsettled

_positions = msgspec.msgpack.Decoder(list[int])
_entries = msgspec.msgpack.Decoder(list[InFlightRun])


def snapshot(positions: Sequence[int], queue_of_level: Sequence[int], unsettled: Unsettled) -> Iterator[bytes]:
    """Positions as they are at the beginning, and the entries below them; there may be changes between the chunks.

    What is taken meanwhile is left out: its event comes after the snapshot, or never.
    """
    yield msgspec.msgpack.encode(positions)
    offset = 0
    while entries := unsettled.following(offset):
        offset = entries[-1].end
        yield msgspec.msgpack.encode(
            [entry for entry in entries if entry.start < positions[queue_of_level[entry.level]]]
        )


def restored(chunks: Sequence[bytes], ahead_ms: int) -> tuple[list[int], Iterator[list[InFlightRun]]]:
    return _positions.decode(chunks[0]), _restored_entries(chunks[1:], ahead_ms)


def _restored_entries(chunks: Sequence[bytes], ahead_ms: int) -> Iterator[list[InFlightRun]]:
    """What had expired or was due is so again as soon as somebody looks at the time."""
    texts: dict[str, str] = {}
    for chunk in chunks:
        entries = _entries.decode(chunk)
        for entry in entries:
            entry.time_ms = brought_back(entry.time_ms, ahead_ms)
            entry.state = LEASED if entry.can_be_settled else WAITING
            entry.consumer = texts.setdefault(entry.consumer, entry.consumer)
            entry.error = texts.setdefault(entry.error, entry.error)
        if entries:
            yield entries
