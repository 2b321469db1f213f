"""A relay between a client and a server that can drop everything without a word, as a network does."""

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

_READ_BYTES = 65_536


class TcpRelay:
    """A with-block. What is sent while it is cut is delivered when it is healed, as by TCP."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp relay", daemon=True)

    def __enter__(self) -> "TcpRelay":
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        self._do(self._set(is_whole=False))

    def heal(self) -> None:
        self._do(self._set(is_whole=True))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _set(self, *, is_whole: bool) -> None:
        self._is_whole.set() if is_whole else self._is_whole.clear()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            await self._is_whole.wait()
            answers, requests = await asyncio.open_connection("127.0.0.1", self._target_port)
            writers.append(requests)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, requests))
                both.create_task(self._pump(answers, writer))
        except* OSError:
            pass  # one side has ended the connection, and so do we
        finally:
            for each in writers:
                each.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_READ_BYTES):
            await self._is_whole.wait()
            writer.write(data)
            await writer.drain()
        await self._is_whole.wait()
        writer.close()
