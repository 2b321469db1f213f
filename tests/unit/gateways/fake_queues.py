"""Queues for tests of the HTTP gateway: hands out what it was given, and remembers what it was asked."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from quiver.model.errors import LeaseLost, QuiverError
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import Receipt
from quiver.model.topic import Topic
from quiver.records.build import build_frame
from quiver.records.header import stamp, unpack_header

NOW_MS = 1_800_000_000_000


class DeliveredRun(NamedTuple):
    partition: int
    group_id: int
    lease_id: int
    start: int
    end: int
    attempt: int
    deadline_ms: int
    first_delivered_ms: int
    last_error: str
    frame: bytes


class Received(NamedTuple):
    topic: Topic
    visibility_ms: int
    run: DeliveredRun


class ReceiptOutcome(NamedTuple):
    error: QuiverError | None
    topic: str
    partition: int
    offset: int
    attempt: int
    until_ms: int | None
    dlq_topic: str | None
    committed_offset: int | None
    offset_advanced: bool


def received(topic: Topic, start: int, values: Sequence[bytes], **options: Any) -> Received:
    """One run of messages from an offset on, in its first attempt unless `attempt` says otherwise."""
    attempt, error = options.pop("attempt", 1), options.pop("last_error", "")
    built = build_frame(values, timestamp_ms=NOW_MS, **options)
    _, head, body = stamp(built, unpack_header(built), base_offset=start, leader_epoch=1, append_time_ms=NOW_MS)
    run = (start, start + len(values), attempt, NOW_MS + 30_000, NOW_MS, error)
    return Received(topic, 30_000, DeliveredRun(0, 7, 2**32 + 5, *run, bytes(head) + bytes(body)))


class FakeQueues:
    """`waiting` is what the next receive responses; without any it waits. `lost` are offsets whose lease is over."""

    def __init__(self) -> None:
        self.waiting: list[Received] = []
        self.asked: ReceiveRequest | None = None
        self.returned: list[Received] = []
        self.settled: list[tuple[int, list[Receipt], dict[str, Any]]] = []
        self.lost: set[int] = set()
        self.dies = False
        self.arrived = asyncio.Event()
        self.responses = asyncio.Event()

    async def receive(self, request: ReceiveRequest) -> list[Received]:
        self.asked = request
        self.arrived.set()
        if request.wait_ms:
            await self.responses.wait()
        found, self.waiting = self.waiting, []
        return found

    def give_back_later(self, received: Sequence[Received]) -> None:
        self.returned += received

    async def settle_receipts(self, action: int, receipts: Sequence[Receipt], **options: Any) -> list[ReceiptOutcome]:
        self.settled.append((action, list(receipts), options))
        return [self._outcome(action, receipt) for receipt in receipts]

    def _outcome(self, action: int, receipt: Receipt) -> ReceiptOutcome:
        place = (receipt.topic, receipt.partition, receipt.offset, receipt.attempt)
        if receipt.offset in self.lost:
            return ReceiptOutcome(LeaseLost(message=str(receipt)), *place, None, None, None, False)
        is_dead = self.dies or action == 2
        until_ms = NOW_MS + 1000 if action in (1, 3) and not is_dead else None
        dlq_topic = f"{receipt.topic}.dlq" if is_dead else None
        return ReceiptOutcome(None, *place, until_ms, dlq_topic, receipt.offset + 1, action == 0)
