"""A broker on the memory engine whose time stands still until the test moves it, and words for what queues give."""

from collections.abc import Sequence
from typing import Any

from quiver.broker.broker import Broker
from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, SettleRequest
from quiver.queues.service import Received
from quiver.queues.state.port import Settlement
from quiver.records.build import build_frame
from quiver.records.read import open_frame
from quiver.storage.memory.storage import MemoryStorage

START_MS = 1_800_000_000_000


class StandingClock:
    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class QueueBroker:
    """`wait` moves the time and lets the broker attend to what has come due."""

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        self.clock = StandingClock()
        self.storage = storage or MemoryStorage()
        self.broker = Broker(self.storage, clock=self.clock)

    async def start(self) -> None:
        await self.broker.start()

    async def restart(self) -> None:
        await self.broker.stop()
        self.broker = Broker(self.storage, clock=self.clock)
        await self.broker.start()

    async def wait(self, milliseconds: int) -> None:
        self.clock.ms += milliseconds
        await self.broker.queues.expire_due()

    async def publish(
        self, topic: str, *values: bytes, partition: int = 0, priority: int = 2, keys: Sequence[bytes] | None = None
    ) -> None:
        """As one frame."""
        frame = build_frame(list(values), keys=keys, timestamp_ms=self.clock.ms, priority=Priority(priority))
        await self.broker.produce(self.broker.topic(topic).id, partition, frame)

    async def publish_each(self, topic: str, *messages: NewMessage) -> None:
        await self.broker.publish(topic, messages)

    async def receive(
        self, *topics: str, group: str = "g", consumer: str = "c", count: int = 100, **options: Any
    ) -> list[Received]:
        return await self.broker.queues.receive(
            ReceiveRequest(
                [self.broker.topic(name).id for name in topics], group, consumer, max_messages=count, **options
            )
        )

    async def settle(self, received: Sequence[Received], action: int = ACK, **options: Any) -> list[Settlement]:
        return await self.broker.queues.settle([part_of(one, action, **options) for one in received])


def part_of(
    one: Received, action: int, *, runs: list[tuple[int, int]] | None = None, **options: Any
) -> SettleRequest:
    run = one.run
    return SettleRequest(
        one.topic.id,
        run.partition,
        run.group_id,
        run.lease_id,
        action,
        runs or [(run.start, run.end)],
        **options,
    )


def values(received: Sequence[Received]) -> list[bytes]:
    return [value or b"" for one in received for value in open_frame(one.run.frame).values()]


def numbered(count: int, word: str = "m") -> list[bytes]:
    return [f"{word}{number}".encode() for number in range(count)]
