"""The broker inside the user's process: `quiver.open(path)` gives the client of a broker without ports.

The broker runs in a thread with an event loop of its own and is reached through socket pairs, so that everything
takes the same path as over the network. It installs no signal handlers.
"""

import asyncio
import atexit
import os
import socket
import threading
import weakref
from pathlib import Path
from typing import Any

from quiver.app.config import Config, load_config
from quiver.app.node import RunningBroker, start_broker
from quiver.client import AsyncClient, Client
from quiver.gateways.native.gateway import NativeGateway
from quiver.model.errors import Closed, ForkRefused, InvalidSetting
from quiver.model.times import Duration
from quiver.system.memory_budget import MemoryBudget

_GRACE_SECONDS = 5.0
_IN_MEMORY = ":memory:"


def open(
    path: str | os.PathLike[str], *, timeout: Duration = 30, tracing: float = 0.0, **settings: Any
) -> "EmbeddedClient":
    """A client with the broker inside this process, on the data directory `path`, or in memory: `:memory:`.

    Each `:memory:` broker is separate; nothing is written, and its messages are gone when it stops.
    DataDirectoryInUse names the process that holds the directory. `settings` are those of `quiver serve`, such as
    auto_create=True. Closing the client stops the broker; after a fork, open another directory in the child.
    """
    client = EmbeddedClient(_broker(path, settings), timeout=timeout, tracing=tracing)
    client.connect()
    return client


def open_async(
    path: str | os.PathLike[str], *, timeout: Duration = 30, tracing: float = 0.0, **settings: Any
) -> "AsyncEmbeddedClient":
    """The asynchronous twin: `async with quiver.open_async(path) as q`, or `q = await quiver.open_async(path)`."""
    return AsyncEmbeddedClient(_broker(path, settings), timeout=timeout, tracing=tracing)


_running: "weakref.WeakSet[EmbeddedBroker]" = weakref.WeakSet()


def _stop_all() -> None:
    """Stops the brokers of clients that the program did not close, so that data directories are left clean."""
    for broker in list(_running):
        broker.stop()


# Plain atexit functions run too late: by then the thread pools of the storage are shut down.
getattr(threading, "_register_atexit", atexit.register)(_stop_all)


class EmbeddedBroker:
    """A broker in a thread. `start` and `stop` block until it runs and until it has ended; both are idempotent."""

    def __init__(self, config: Config, *, in_memory: bool = False) -> None:
        if config.workers > 1:
            problem = "a broker inside a process is that one process; run `quiver serve` for several workers"
            raise InvalidSetting(setting="workers", problem=problem)
        self._config = config
        self._in_memory = in_memory
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._listening = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gateway: NativeGateway | None = None
        self._ending: asyncio.Event | None = None
        self._started = threading.Event()
        self._error: BaseException | None = None

    def start(self) -> None:
        """Raises the error if the broker could not start."""
        self.check_process()
        with self._mutex:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="quiver-broker", daemon=True)
                self._thread.start()
                _running.add(self)
        self._started.wait()
        if self._error is not None:
            raise self._error

    def connect(self) -> socket.socket:
        """A socket whose other end the broker serves."""
        self.check_process()
        loop, gateway = self._loop, self._gateway
        if loop is None or gateway is None or loop.is_closed():
            raise Closed(what="the embedded broker")
        ours, theirs = socket.socketpair()
        loop.call_soon_threadsafe(gateway.serve_socket, theirs)
        return ours

    def listen(self) -> str:
        """The address of a port on this machine; it is opened by the first call."""
        self.start()
        loop, gateway = self._loop, self._gateway
        if loop is None or gateway is None or loop.is_closed():
            raise Closed(what="the embedded broker")
        with self._listening:
            if not gateway.port:
                asyncio.run_coroutine_threadsafe(gateway.start(), loop).result()
        return f"{gateway.host}:{gateway.port}"

    @property
    def is_forked(self) -> bool:
        return os.getpid() != self._pid

    def stop(self) -> None:
        """Finishes what was accepted, syncs and closes; does nothing in a forked child, where the broker is the
        parent's."""
        if self.is_forked:
            return
        _running.discard(self)
        with self._mutex:
            thread, loop, ending = self._thread, self._loop, self._ending
        if thread is None:
            return
        if loop is not None and ending is not None and not loop.is_closed():
            loop.call_soon_threadsafe(ending.set)
        thread.join()

    def check_process(self) -> None:
        if self.is_forked:
            raise ForkRefused(pid=self._pid)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # the caller that waits for the start gets it
            self._error = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        running: RunningBroker = await start_broker(self._config, in_memory=self._in_memory)
        try:
            config = self._config
            budget = MemoryBudget(config.memory_budget, request_bytes=config.max_request_bytes)
            gateway = NativeGateway(running.facade, budget=budget)
            self._ending = asyncio.Event()
            self._loop, self._gateway = asyncio.get_running_loop(), gateway
            self._started.set()
            await self._ending.wait()
            await gateway.stop(_GRACE_SECONDS)
        finally:
            await running.stop()


class EmbeddedClient(Client):
    def __init__(self, broker: EmbeddedBroker, *, timeout: Duration, tracing: float) -> None:
        super().__init__(broker.connect, timeout=timeout, tracing=tracing)
        self._broker = broker

    def connect(self, timeout: Duration | None = None) -> Client:
        self._broker.start()
        return super().connect(timeout)

    def listen(self) -> str:
        """Opens a port on this machine, for other processes, and returns its address: `127.0.0.1:53211`.

        Calling it again returns the same address. The port is closed with the client.
        """
        return self._broker.listen()

    def close(self, timeout: Duration | None = None) -> None:
        try:
            super().close(timeout)
        finally:
            self._broker.stop()


class AsyncEmbeddedClient(AsyncClient):
    def __init__(self, broker: EmbeddedBroker, *, timeout: Duration, tracing: float) -> None:
        super().__init__(broker.connect, timeout=timeout, tracing=tracing)
        self._broker = broker

    async def connect(self, timeout: Duration | None = None) -> AsyncClient:
        self._broker.check_process()
        await asyncio.to_thread(self._broker.start)
        return await super().connect(timeout)

    async def listen(self) -> str:
        """The asynchronous twin of `EmbeddedClient.listen`."""
        return await asyncio.to_thread(self._broker.listen)

    async def close(self, timeout: Duration | None = None) -> None:
        try:
            await super().close(timeout)
        finally:
            if not self._broker.is_forked:  # a forked child has none of the threads
                await asyncio.to_thread(self._broker.stop)


def _broker(path: str | os.PathLike[str], settings: dict[str, Any]) -> EmbeddedBroker:
    config = load_config({"data_dir": str(Path(path)), **settings}, environment={}).config
    return EmbeddedBroker(config, in_memory=path == _IN_MEMORY)
