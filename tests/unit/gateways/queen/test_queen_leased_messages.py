"""What Queen's interface remembers of pops: little once everything is settled."""

from typing import TYPE_CHECKING, cast

from quiver.gateways.queen.acks.leased_messages import LeasedBatch, LeasedMessages

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


def _batch(lease: int, count: int = 1, key: bytes | None = b"key") -> LeasedBatch:
    batch = LeasedBatch(0, lease, key)
    batch.extend([f"{lease}-{offset}" for offset in range(count)], range(count))
    return batch


def _messages(held: int, settled: int) -> LeasedMessages:
    return LeasedMessages(cast("Facade", None), held, settled)


def test_settled_batches_leave_first() -> None:
    messages = _messages(1_000_000, 100)
    waiting = _batch(0)
    messages.add([waiting])
    for lease in range(1, 10_000):
        batch = _batch(lease)
        messages.add([batch])
        messages.released(batch)
    assert messages.count <= 100
    assert messages.get(0, 0, b"key") is waiting
    assert messages.get(0, 9_999, b"key") is batch, "acknowledgements may be sent again"
    assert messages.get(0, 1, b"key") is None


def test_held_batches_are_bounded_by_what_they_cost() -> None:
    messages = _messages(1_000, 100)
    for lease in range(10_000):
        messages.add([_batch(lease)])
    assert messages.count <= 1_000 // 4
    messages.add([_batch(10_000, count=5_000)])
    assert messages.count == 1, "the last one is kept however large it is"
    messages.add([_batch(10_001)])
    assert messages.get(0, 10_000, b"key") is None


def test_what_was_read_again_and_never_added_is_not_kept() -> None:
    messages = _messages(1_000, 100)
    messages.released(_batch(1))
    assert messages.count == 0


def test_a_place_is_counted_once() -> None:
    messages = _messages(20, 100)
    for _ in range(100):
        messages.add([_batch(1), _batch(2, key=None)])
    assert messages.count == 2
