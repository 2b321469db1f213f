"""Queen's own Python client against a broker, unchanged. It is no dependency: `pip install queen-mq==2.6.0`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from blackbox.processes.broker_process import BrokerProcess, free_port

queen = pytest.importorskip("queen", reason="Queen's Python client is not installed (queen-mq==2.6.0)")


def test_queens_client_works_unchanged(tmp_path: Path) -> None:
    port = free_port()
    with BrokerProcess(tmp_path / "data", "--queen-port", str(port)):
        asyncio.run(_use(f"http://127.0.0.1:{port}"))


async def _use(url: str) -> None:
    async with queen.Queen(url) as client:
        await client.queue("in").config({"leaseTime": 60, "retryLimit": 0}).create()
        pushed = (
            await client.queue("in")
            .partition("p")
            .push([{"data": {"n": number}, "transactionId": f"t{number}"} for number in range(5)])
        )
        assert [each["status"] for each in pushed] == ["queued"] * 5
        first, second = await client.queue("in").batch(2).pop()
        assert (await client.renew(first))["success"] is True
        assert (await client.ack(first, True))["success"] is True
        assert (await client.ack(second, False, {"error": "no"}))["success"] is True
        dead = await client.queue("in").dlq().limit(10).get()
        assert (dead["total"], dead["messages"][0]["errorMessage"]) == (1, "no")
        [third] = await client.queue("in").batch(1).pop()
        done = await client.transaction().ack(third).queue("out").push([{"data": {"moved": 2}}]).commit()
        assert done["success"] is True
        assert await _consumed(client, "out", 1) == [{"moved": 2}]
        assert await _consumed(client, "in", 2) == [{"n": 3}, {"n": 4}]


async def _consumed(client: Any, name: str, count: int) -> list[Any]:
    found: list[Any] = []

    async def handle(messages: Any) -> None:
        found.extend(each["data"] for each in (messages if isinstance(messages, list) else [messages]))

    await client.queue(name).batch(count).limit(count).consume(handle)
    return found
