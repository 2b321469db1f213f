"""Numbered messages under way: a producer thread that remembers what was acked, and the check of what is stored."""

import threading
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import quiver

ACK_SECONDS = 60.0


class Acked(NamedTuple):
    partition: int
    offset: int
    number: int


class Load(threading.Thread):
    """Sends 0, 1, 2 ... to one topic, spread over its partitions by the number, with an idempotent producer.

    At most `window` messages wait for their ack. It goes on through restarts of the broker and ends with `finish`.
    """

    def __init__(self, address: str, topic: str, partitions: int, *, window: int = 2000, **options: Any) -> None:
        super().__init__(name=f"load on {topic}", daemon=True)
        self.topic, self.partitions = topic, partitions
        self.acked: list[Acked] = []
        self.sent = 0
        self.error: BaseException | None = None
        self._address, self._window, self._options = address, window, options
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            with (
                quiver.connect(self._address) as q,
                q.producer(self.topic, **({"linger": "1ms"} | self._options)) as producer,
            ):
                self._send(producer)
        except BaseException as error:
            self.error = error

    def _send(self, producer: Any) -> None:
        waiting: deque[tuple[int, Any]] = deque()
        while not self._stopping.is_set():
            number = self.sent
            waiting.append((number, producer.send(b"%d" % number, partition=number % self.partitions)))
            self.sent += 1
            while len(waiting) > self._window:
                self._settle(*waiting.popleft())
        producer.flush()
        while waiting:
            self._settle(*waiting.popleft())

    def _settle(self, number: int, future: Any) -> None:
        placed = future.result(ACK_SECONDS)
        self.acked.append(Acked(placed.partition, placed.offset, number))

    def finish(self) -> None:
        """Stops sending, waits until everything is acked; raises what went wrong in the thread."""
        self._stopping.set()
        self.join(ACK_SECONDS * 2)
        assert not self.is_alive(), "the producer hangs"
        if self.error is not None:
            raise self.error


def stored_numbers(q: Any, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Per partition the (offset, number) of everything that is stored now, in the order it is read."""
    found: dict[int, list[tuple[int, int]]] = {}
    for message in q.read(topic, start="earliest", end="latest"):
        found.setdefault(message.partition, []).append((message.offset, int(message.value)))
    return found


def check_stored(q: Any, topic: str, acked: Sequence[Acked]) -> int:
    """Every acked message is at its offset, nothing is there twice or out of order; returns how many there are."""
    found = stored_numbers(q, topic)
    for partition, entries in found.items():
        offsets, numbers = [offset for offset, _ in entries], [number for _, number in entries]
        assert _rises(offsets), f"offsets of partition {partition} go back: {_first_fall(offsets)}"
        assert _rises(numbers), f"partition {partition} has a message twice or out of order: {_first_fall(numbers)}"
    places = {(partition, offset): number for partition, entries in found.items() for offset, number in entries}
    lost = [ack for ack in acked if places.get((ack.partition, ack.offset)) != ack.number]
    assert not lost, f"{len(lost)} of {len(acked)} acked messages are not where they were acked, such as {lost[:5]}"
    return len(places)


def _rises(values: Sequence[int]) -> bool:
    return all(a < b for a, b in pairwise(values))


def _first_fall(values: Sequence[int]) -> str:
    at = next(i for i in range(1, len(values)) if values[i] <= values[i - 1])
    return f"{values[max(0, at - 3) : at + 3]} at index {at}"
