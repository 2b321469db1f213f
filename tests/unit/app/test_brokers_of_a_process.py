"""Workers that share a process share the cache of queues: it does not become larger with their number."""

import asyncio
from pathlib import Path

from quiver.app.config import Config
from quiver.app.node import start_broker


async def test_brokers_of_a_process_have_one_cache(tmp_path: Path, database: str) -> None:
    running = await start_broker(
        Config(data_dir=tmp_path, storage=database, http_port=0, native_port=0, min_free_bytes=0)
    )
    try:
        async with asyncio.timeout(60):
            while len(running.brokers) < 2:
                await asyncio.sleep(0)
        assert len({each.queues.frames for each in running.brokers}) == 1
    finally:
        await running.stop()
