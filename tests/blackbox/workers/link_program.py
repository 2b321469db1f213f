"""Three workers that call each other: `python link_program.py DATA_DIR`. Worker 0 prints what it sees, as JSON."""

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

from quiver.app.workers.environment import WITHOUT_THREADS

os.environ |= WITHOUT_THREADS

import msgspec
import uvloop

from quiver.app.config import Config, load_config
from quiver.app.serve import stop_on_signals
from quiver.app.workers.inbox_reader import InboxReader
from quiver.app.workers.node import supervise
from quiver.app.workers.seat import WorkerSeat
from quiver.links.peers import Peers
from quiver.links.request import Handlers, PeerRequest, Reply
from quiver.model.errors import WorkerUnavailable
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.system.processes import Parent

CALLS = 2000


class Describe(PeerRequest[dict[str, int]], frozen=True):
    capability, method = "tests", "describe"


class Sleep(PeerRequest[None], frozen=True):
    capability, method, only_waits = "tests", "sleep", True


class OneWorker:
    def __init__(self, seat: WorkerSeat, epoch: int) -> None:
        self.seat, self.epoch = seat, epoch
        handlers = Handlers()
        handlers.add(Describe, self.describe)
        handlers.add(Sleep, self.sleep)
        self.peers = Peers(seat.worker, seat.workers, seat.dial, handlers)
        InboxReader(seat.inbox).start(self.peers.accept)

    async def describe(self, request: Describe, payload: memoryview) -> Reply[dict[str, int]]:
        return Reply({"worker": self.seat.worker, "pid": os.getpid(), "epoch": self.epoch}, (payload,))

    async def sleep(self, request: Sleep, payload: memoryview) -> Reply[None]:
        await asyncio.Event().wait()
        return Reply(None)

    async def scenario(self) -> dict[str, Any]:
        before = (await self.peers.call(1, Describe())).value
        other = (await self.peers.call(2, Describe())).value
        waiting = asyncio.ensure_future(self.peers.call(1, Sleep()))
        await self.peers.call(1, Describe())
        os.kill(before["pid"], signal.SIGKILL)
        try:
            await waiting
            error = ""
        except WorkerUnavailable as lost:
            error = lost.message
        killed = time.perf_counter()
        while True:
            try:
                after = (await self.peers.call(1, Describe())).value
                break
            except WorkerUnavailable:
                continue
        back_seconds = time.perf_counter() - killed
        took = []
        for _ in range(CALLS):
            began = time.perf_counter()
            await self.peers.call(2, Describe(), (b"x" * 1000,))
            took.append(time.perf_counter() - began)
        return {
            "own": self.epoch, "before": before, "after": after, "other": other, "error": error,
            "back_seconds": back_seconds, "p50_ms": sorted(took)[CALLS // 2] * 1000,
        }  # fmt: skip


async def serve(config: Config, seat: WorkerSeat, parent: Parent) -> None:
    stopping = asyncio.Event()
    stop_on_signals(stopping)
    asyncio.get_running_loop().add_reader(parent.lifeline, stopping.set)
    settings = LocalSettings(worker=seat.worker, workers=seat.workers, lock_fd=seat.lock_fd)
    storage = LocalStorage(config.data_dir, settings)
    await storage.open()
    worker = OneWorker(seat, await storage.next_start_epoch())
    parent.report_ready()
    if seat.worker == 0:
        print(json.dumps(await worker.scenario()), flush=True)
    await stopping.wait()
    await worker.peers.close()
    await storage.close()


def run(config: Config, seat: WorkerSeat, parent: Parent) -> int:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(config, seat, parent))
    return 0


if __name__ == "__main__":
    config = load_config({"data_dir": sys.argv[1], "http_port": 0, "native_port": 0}, environment={}).config
    config = msgspec.structs.replace(config, workers=3)
    sys.exit(supervise(config, on_ready=lambda _: None, run=run))
