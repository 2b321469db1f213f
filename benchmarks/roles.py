"""Roles: the producers and consumers of one run, each in a Python process of its own.

A role connects, calls `watch.start()` (which waits until all roles of the run are connected and warm), works, and
calls `watch.stop()` when its last message is acknowledged or received; connecting and closing are not timed.
"""

import contextlib
import multiprocessing
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CONNECT_SECONDS = 90


@dataclass(frozen=True, slots=True)
class Role:
    work: Callable[..., Any]
    """Called as work(*arguments, watch) in the new process, so it must be importable there."""
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    started: float
    ended: float
    cpu_seconds: float
    result: Any

    @property
    def seconds(self) -> float:
        return self.ended - self.started


class RoleFailed(Exception):
    """A role ended with an exception, died, or was not done in time."""


class Watch:
    """The time and the processor time of a role between `start` and `stop`."""

    def __init__(self, barrier: Any) -> None:
        self._barrier = barrier
        self.started = self.ended = self.cpu_seconds = 0.0

    def start(self) -> None:
        _warm_up()
        self._barrier.wait(CONNECT_SECONDS)
        self.started = time.monotonic()
        self._cpu = time.process_time()

    def stop(self, cpu_seconds: float = 0.0) -> None:
        """`cpu_seconds`: what a process that works for this role used, beside this one."""
        if not self.ended:
            self.ended = time.monotonic()
            self.cpu_seconds = time.process_time() - self._cpu + cpu_seconds


def _warm_up() -> None:
    """Does once what a client does for the first message: the first array that pyarrow makes imports a lot. Clients
    of peers make no arrays, and have nothing of this kind.

    Another version of Quiver (`--against`) may have these parts elsewhere; then the first array must do."""
    if "quiver" not in sys.modules:
        return
    import pyarrow

    pyarrow.array([b"warm"], pyarrow.binary())
    with contextlib.suppress(ImportError):
        from quiver.records.build import build_frame
        from quiver.records.header import stamp, unpack_header
        from quiver.records.read import open_frame

        frame = build_frame([b"warm"], keys=[b"up"], timestamp_ms=0)
        stamped = stamp(frame, unpack_header(frame), base_offset=0, leader_epoch=0, append_time_ms=0)
        open_frame(bytes(stamped.header_bytes) + bytes(stamped.body)).values()


def run_roles(roles: dict[str, Role], timeout: float = 120) -> dict[str, Outcome]:
    """Runs all roles at once and returns what came of each; raises RoleFailed as soon as one fails."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(len(roles)), context.Queue()
    processes = [
        context.Process(target=_play, args=(name, role, barrier, answers), daemon=True)
        for name, role in roles.items()
    ]
    for process in processes:
        process.start()
    try:
        return _collect(processes, answers, len(roles), time.monotonic() + timeout)
    except BaseException:
        for process in processes:
            process.terminate()
        raise
    finally:
        for process in processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()


def span(outcomes: dict[str, Outcome]) -> float:
    """Seconds from the first start to the last end."""
    return max(o.ended for o in outcomes.values()) - min(o.started for o in outcomes.values())


def _play(name: str, role: Role, barrier: Any, answers: Any) -> None:
    watch = Watch(barrier)
    try:
        result = role.work(*role.arguments, watch)
        watch.stop()
        answers.put((name, Outcome(watch.started, watch.ended, watch.cpu_seconds, result), None))
    except threading.BrokenBarrierError:
        answers.put((name, None, None))  # another role failed, and says why
    except BaseException:
        barrier.abort()
        answers.put((name, None, traceback.format_exc()))
    finally:
        answers.close()
        answers.join_thread()
        os._exit(0)  # clients' left-over threads must not hold up the next run


def _collect(processes: list[Any], answers: Any, count: int, deadline: float) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    while len(outcomes) < count:
        try:
            name, outcome, error = answers.get(timeout=0.5)
        except queue.Empty:
            dead = [process for process in processes if process.exitcode not in (None, 0)]
            if dead:
                raise RoleFailed(f"a role died with status {dead[0].exitcode}") from None
            if time.monotonic() > deadline:
                raise RoleFailed("the run was not done in time") from None
            continue
        if error is not None:
            raise RoleFailed(f"{name}: {error}")
        if outcome is not None:
            outcomes[name] = outcome
    return outcomes
