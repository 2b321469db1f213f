"""A snapshot of everything a partition's delivery journal is about, in pieces.

The outbox comes last: what dies while the pieces are made is then in the outbox at least, and maybe in both places,
but never in neither.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from quiver.delivery.queue_group import QueueGroup
from quiver.model.queue import Ordering
from quiver.moves.outbox import Outbox
from quiver.structures.interval_set import IntervalSet

_LENGTH = struct.Struct("<I")


class RemovedImage(msgspec.Struct, frozen=True, array_like=True, tag=0):
    numbers: list[int]


class GroupImage(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The pieces of its state follow."""

    group: int
    ordering: Ordering
    in_offset_order: bool


class StatePiece(msgspec.Struct, frozen=True, array_like=True, tag=2):
    data: bytes


class OutboxImage(msgspec.Struct, frozen=True, array_like=True, tag=3):
    content: Any
    dead: dict[int, int]
    """By group, the dead letters so far: those of the moves that the outbox has seen."""


class Restored(NamedTuple):
    removed: IntervalSet
    groups: dict[int, QueueGroup]
    outbox: Outbox


_decoder = msgspec.msgpack.Decoder(RemovedImage | GroupImage | StatePiece | OutboxImage)


def image(removed: IntervalSet, groups: Mapping[int, QueueGroup], outbox: Outbox) -> Iterator[bytes]:
    yield _framed(RemovedImage(removed.encode()))
    for group in list(groups.values()):
        yield _framed(GroupImage(group.id, group.ordering, group.in_offset_order))
        for piece in group.state.image():
            yield _framed(StatePiece(piece))
    yield _framed(OutboxImage(outbox.image(), {group.id: group.tally.dead for group in groups.values()}))


def restored(data: bytes) -> Restored:
    removed, outbox = IntervalSet(), Outbox()
    groups: dict[int, QueueGroup] = {}
    pieces: dict[int, list[bytes]] = {}
    held: list[bytes] = []
    for piece in _pieces(data):
        match piece:
            case RemovedImage():
                removed = IntervalSet.decode(piece.numbers)
            case GroupImage():
                groups[piece.group] = QueueGroup(
                    piece.group, ordering=piece.ordering, start=0, in_offset_order=piece.in_offset_order
                )
                held = pieces[piece.group] = []
            case StatePiece():
                held.append(piece.data)
            case OutboxImage():
                outbox.restore(piece.content)
                for group_id in piece.dead.keys() & groups.keys():
                    groups[group_id].tally.dead = piece.dead[group_id]
    for group_id, group in groups.items():
        group.state.restore(pieces.pop(group_id))
    return Restored(removed, groups, outbox)


def _framed(piece: msgspec.Struct) -> bytes:
    data = msgspec.msgpack.encode(piece)
    return _LENGTH.pack(len(data)) + data


def _pieces(data: bytes) -> Iterable[RemovedImage | GroupImage | StatePiece | OutboxImage]:
    view, at = memoryview(data), 0
    while at < len(view):
        (length,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        yield _decoder.decode(view[at : at + length])
        at += length
