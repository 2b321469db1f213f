"""A snapshot of the state of transactions, in chunks of bounded size."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from quiver.storage.snapshot_chunks import chunk, chunks
from quiver.transactions.events import Decided
from quiver.transactions.producer import KeyedAnswer, Producer

if TYPE_CHECKING:
    from quiver.transactions.state import TransactionState

_CHUNK_ITEMS = 1_000


class Numbers(msgspec.Struct, frozen=True, array_like=True, tag=0):
    last_decision: int
    commits: int
    aborts: int


class Producers(msgspec.Struct, frozen=True, array_like=True, tag=1):
    items: list[tuple[int, Producer]]


class Unfinished(msgspec.Struct, frozen=True, array_like=True, tag=2):
    items: list[Decided]


class Keys(msgspec.Struct, frozen=True, array_like=True, tag=3):
    items: list[tuple[str, KeyedAnswer]]


_decoder = msgspec.msgpack.Decoder(Numbers | Producers | Unfinished | Keys)


def encode_state(state: "TransactionState") -> Iterator[bytes]:
    """Nothing may change until the last chunk is taken."""
    yield chunk(Numbers(state.last_decision, state.commits, state.aborts))
    for part in _parts(list(state.producers.items())):
        yield chunk(Producers(part))
    for part in _parts(list(state.unfinished.values())):
        yield chunk(Unfinished(part))
    for part in _parts(list(state.keys.items())):
        yield chunk(Keys(part))


def restore_state(data: bytes, state: "TransactionState") -> None:
    """Replaces whatever the state held."""
    for table in (state.producers, state.ids, state.unfinished, state.keys):
        table.clear()
    for stored in chunks(data):
        match _decoder.decode(stored):
            case Numbers(last_decision, commits, aborts):
                state.last_decision, state.commits, state.aborts = last_decision, commits, aborts
            case Producers(items):
                state.producers.update(items)
            case Unfinished(items):
                state.unfinished.update((decided.id, decided) for decided in items)
            case Keys(items):
                state.keys.update(items)
    for producer_id, producer in state.producers.items():
        if producer.transactional_id is not None:
            state.ids[producer.transactional_id] = producer_id


def _parts(items: Sequence[Any]) -> Iterator[list[Any]]:
    for at in range(0, len(items), _CHUNK_ITEMS):
        yield list(items[at : at + _CHUNK_ITEMS])
