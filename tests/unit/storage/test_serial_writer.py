import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import pytest

from quiver.storage.writer import Rest, SerialWriter

T = TypeVar("T")


def in_task(write: Callable[[list[T]], Awaitable[None]]) -> Callable[[list[T]], Rest]:
    return lambda items: partial(write, items)


async def test_what_gathers_during_a_write_is_the_next_batch() -> None:
    gate, batches = asyncio.Event(), []

    async def write(items: list[str]) -> None:
        batches.append(items)
        await gate.wait()

    writer = SerialWriter(in_task(write), batch_bytes=100)
    writer.submit("a", 1)
    await asyncio.sleep(0)
    writer.submit("b", 1)
    writer.submit("c", 1)
    assert writer.queued_bytes == 2
    gate.set()
    await writer.drain()
    assert batches == [["a"], ["b", "c"]]
    assert writer.queued_bytes == 0


async def test_a_batch_is_bounded_but_never_empty() -> None:
    batches = []

    async def write(items: list[str]) -> None:
        batches.append(items)

    writer = SerialWriter(in_task(write), batch_bytes=10)
    for item, size in [("huge", 99), ("a", 6), ("b", 4), ("c", 1)]:
        writer.submit(item, size)
    await writer.drain()
    assert batches == [["huge"], ["a", "b"], ["c"]]


async def test_an_exclusive_operation_runs_between_writes_and_gives_its_result() -> None:
    seen = []

    async def write(items: list[str]) -> None:
        seen.append("write begins")
        await asyncio.sleep(0)
        seen.append("write ends")

    async def operation() -> int:
        seen.append("operation")
        return 7

    writer = SerialWriter(in_task(write), batch_bytes=10)
    writer.submit("a", 1)
    await asyncio.sleep(0)
    assert await writer.exclusive(operation) == 7
    assert seen == ["write begins", "write ends", "operation"]


async def test_a_failing_operation_fails_its_caller_only() -> None:
    written = []

    async def write(items: list[str]) -> None:
        written.extend(items)

    async def operation() -> None:
        raise OSError("no")

    writer = SerialWriter(in_task(write), batch_bytes=10)
    with pytest.raises(OSError, match="no"):
        await writer.exclusive(operation)
    writer.submit("a", 1)
    await writer.drain()
    assert written == ["a"]


async def test_a_writer_goes_on_after_a_batch_that_raised() -> None:
    seen: list[int] = []

    async def write(batch: list[int]) -> None:
        seen.extend(batch)
        if 1 in batch:
            raise RuntimeError("a defect")

    writer: SerialWriter[int] = SerialWriter(in_task(write), batch_bytes=1)
    for number in (1, 2, 3):
        writer.submit(number, 1)
    await asyncio.wait_for(writer.drain(), 10)
    assert seen == [1, 2, 3]
    assert writer.queued_bytes == 0


async def test_nothing_is_written_while_it_is_held() -> None:
    seen: list[str] = []

    async def write(items: list[str]) -> None:
        seen.extend(items)

    async def operation() -> None:
        seen.append("operation")

    writer = SerialWriter(in_task(write), batch_bytes=10)
    writer.hold()
    writer.submit("a", 1)
    exclusive = asyncio.create_task(writer.exclusive(operation))
    drained = asyncio.create_task(writer.drain())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not writer.is_idle
    assert not seen
    assert not drained.done()
    writer.release()
    await asyncio.gather(drained, exclusive)
    assert sorted(seen) == ["a", "operation"]
    assert writer.is_idle


async def test_a_hold_that_nobody_came_during_leaves_it_idle() -> None:
    async def write(items: list[str]) -> None:
        raise AssertionError

    writer = SerialWriter(in_task(write), batch_bytes=10)
    writer.hold()
    drained = asyncio.create_task(writer.drain())
    await asyncio.sleep(0)
    assert not drained.done()
    writer.release()
    await drained
    assert writer.is_idle


async def test_what_is_written_at_once_needs_no_task_and_what_is_begun_holds_the_writer() -> None:
    batches: list[list[str]] = []

    def write(items: list[str]) -> bool:
        batches.append(items)
        return "slow" not in items

    writer = SerialWriter(write, batch_bytes=10)
    for item, size in [("a", 6), ("b", 6), ("slow", 6), ("c", 6)]:
        writer.submit(item, size)
    await asyncio.sleep(0)
    assert batches == [["a"], ["b"], ["slow"]]
    assert not writer.is_idle
    writer.release()
    assert batches[3:] == [["c"]]
    assert writer.is_idle
