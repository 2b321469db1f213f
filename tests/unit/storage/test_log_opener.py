"""Opening logs: in few calls, in several threads where one takes long, and until the end when nobody waits."""

import asyncio
from threading import Event, get_ident
from typing import Any, cast

import pytest

from quiver.log.segment_log import SegmentLog
from quiver.storage.local.log_opener import LogOpener
from quiver.storage.port import LogOptions
from quiver.system.threads import ThreadPool

OPTIONS = LogOptions()


class Opened:
    """Stands for a log that is open."""

    def __init__(self, log_id: str) -> None:
        self.log_id, self.thread = log_id, get_ident()


class Directory:
    """Logs with `slow` in their names are opened when `go` is set; those with `bad` cannot be opened."""

    def __init__(self) -> None:
        self.begun, self.go = Event(), Event()
        self.opened: list[str] = []

    def open(self, log_id: str, _: LogOptions) -> SegmentLog:
        if "slow" in log_id:
            self.begun.set()
            assert self.go.wait(30)
        if "bad" in log_id:
            raise OSError(log_id)
        self.opened.append(log_id)
        return cast(SegmentLog, Opened(log_id))


async def opened(opener: LogOpener, *log_ids: str) -> list[Any]:
    return await asyncio.gather(*[opener.open(log_id, OPTIONS) for log_id in log_ids])


async def test_one_thread_opens_many_logs() -> None:
    threads, directory = ThreadPool(8, "open"), Directory()
    opener = LogOpener(threads, 8, directory.open)
    names = [f"topics/1/{number}" for number in range(100)]
    logs = await opened(opener, *names)
    assert [log.log_id for log in logs] == names
    [again] = await opened(opener, "topics/2/0")
    assert again.log_id == "topics/2/0", "it begins again when it had ended"
    for _ in range(200):  # each arrives as the one before ends
        await opener.open("topics/3/0", OPTIONS)
    threads.close()


async def test_other_threads_go_on_while_a_log_takes_long() -> None:
    threads, directory = ThreadPool(3, "open"), Directory()
    opener = LogOpener(threads, 3, directory.open)
    slow = asyncio.ensure_future(opener.open("slow/0", OPTIONS))
    quick = await opened(opener, *[f"quick/{number}" for number in range(50)])
    assert not slow.done()
    directory.go.set()
    assert cast(Opened, await slow).thread not in {log.thread for log in quick}
    threads.close()


async def test_an_error_is_that_of_one_log() -> None:
    threads, directory = ThreadPool(1, "open"), Directory()
    opener = LogOpener(threads, 1, directory.open)
    names = ["good/0", "bad/0", "good/1"]
    found = await asyncio.gather(*[opener.open(name, OPTIONS) for name in names], return_exceptions=True)
    assert isinstance(found[1], OSError)
    assert directory.opened == ["good/0", "good/1"]
    threads.close()
    with pytest.raises(RuntimeError, match="closed"):
        await opener.open("good/2", OPTIONS)


async def test_whoever_is_cancelled_waits_for_the_end() -> None:
    threads, directory = ThreadPool(1, "open"), Directory()
    opener = LogOpener(threads, 1, directory.open)
    begun = asyncio.ensure_future(opener.open("slow/0", OPTIONS))
    await asyncio.to_thread(directory.begun.wait, 30)
    waiting = asyncio.ensure_future(opener.open("later/0", OPTIONS))
    await asyncio.sleep(0)
    begun.cancel()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not begun.done()
    directory.go.set()
    with pytest.raises(asyncio.CancelledError):
        await begun
    assert directory.opened == ["slow/0"], "what had not begun is not opened"
    threads.close()


def test_everything_may_be_cancelled_at_once() -> None:
    """As when a loop ends: nobody waits for somebody who is cancelled too."""
    threads, directory = ThreadPool(1, "open"), Directory()
    opener = LogOpener(threads, 1, directory.open)

    async def leave_all() -> list[asyncio.Task[Any]]:
        tasks = [asyncio.create_task(opener.open(name, OPTIONS)) for name in ("slow/0", "later/0", "later/1")]
        await asyncio.to_thread(directory.begun.wait, 30)
        asyncio.get_running_loop().call_later(0.01, directory.go.set)
        return tasks

    tasks = asyncio.run(leave_all())
    assert all(task.cancelled() for task in tasks)
    assert directory.opened[0] == "slow/0"
    threads.close()
