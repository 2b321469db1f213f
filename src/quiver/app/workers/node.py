"""A broker of several workers, from the lock of its data directory to the end of its last process."""

import gc
import os
import socket
import threading
from collections.abc import Callable

import msgspec

from quiver.app.addresses import STATE_FILE, Addresses, advertised_host, state_of, warn_if_exposed
from quiver.app.config import Config
from quiver.app.workers.seat import WorkerSeat
from quiver.app.workers.supervisor import DeathLimit, Supervisor, WorkerState
from quiver.app.workers.worker import run_worker
from quiver.gateways.http.gateway import open_listener
from quiver.model.errors import InvalidSetting
from quiver.storage.local.data_directory import DataDirectory
from quiver.system.clock import Clock, SystemClock
from quiver.system.files import Files
from quiver.system.network import open_listeners
from quiver.system.processes import OsProcesses, Parent
from quiver.system.shared_counts import SharedCounts
from quiver.system.shared_note import SharedMemoryNote
from quiver.system.socket_inbox import SocketInbox

RunWorker = Callable[[Config, WorkerSeat, Parent], int]
_KILL_AFTER_SECONDS = 1.0
"""After the time that the workers have to stop."""


def supervise(
    config: Config,
    *,
    on_ready: Callable[[Addresses], None],
    run: RunWorker = run_worker,
    limit: DeathLimit = DeathLimit(),  # noqa: B008 - a value
) -> int:
    """Runs a broker of `config.workers` until SIGTERM or SIGINT, and returns its exit status.

    `on_ready` is called once all workers are ready.

    Workers are forked from this process, so its caller has imported the program and started no thread (see
    `environment.py`). Raises DataDirectoryInUse and InvalidSetting as a single process does.
    """
    assert threading.active_count() == 1, "a worker would lack the threads of the process that it is forked from"
    files, clock = Files(), SystemClock()
    node = _Node(config, files, clock, on_ready)
    seat = _open(config, DataDirectory(config.data_dir, files, clock))
    node.addresses = _addresses(config, seat)
    warn_if_exposed(config, node.addresses)
    gc.collect()
    gc.freeze()  # so that collections of workers do not copy the pages that all of them share
    supervisor = Supervisor(
        OsProcesses(),
        config.workers,
        lambda worker, parent: run(config, seat._replace(worker=worker), parent),
        on_change=node.on_change,
        stop_seconds=config.shutdown_timeout_ms / 1000 + _KILL_AFTER_SECONDS,
        limit=limit,
    )
    try:
        return supervisor.run()
    finally:
        files.remove(config.data_dir / STATE_FILE)


def _open(config: Config, directory: DataDirectory) -> WorkerSeat:
    try:
        lock_fd = directory.lock()
        directory.redo_all()
        directory.ensure_start_epoch()
    except OSError as error:
        problem = f"cannot use {config.data_dir}: {error.strerror or error}"
        raise InvalidSetting(setting="data_dir", problem=problem) from error
    native = open_listeners(config.host, config.native_port)
    http = _listen(config, "http_port", config.http_port)
    queen = None if config.queen_port is None else _listen(config, "queen_port", config.queen_port)
    inboxes = tuple(SocketInbox() for _ in range(config.workers))
    counters, connections = SharedMemoryNote("quiver-counters"), SharedCounts(config.workers)
    return WorkerSeat(0, config.workers, lock_fd, native, http, queen, inboxes, counters, connections)


def _listen(config: Config, setting: str, port: int) -> socket.socket:
    try:
        return open_listener(config.host, port)
    except OSError as error:
        problem = f"cannot listen on port {port}: {error.strerror or error}"
        raise InvalidSetting(setting=setting, problem=problem) from error


def _addresses(config: Config, seat: WorkerSeat) -> Addresses:
    http_port, native_port = seat.http.getsockname()[1], seat.native[0].getsockname()[1]
    queen_port = None if seat.queen is None else seat.queen.getsockname()[1]
    return Addresses(advertised_host(config), http_port, native_port, queen_port)


class _Node:
    """What others see of it: the file that says where it is, and that it is ready."""

    def __init__(self, config: Config, files: Files, clock: Clock, on_ready: Callable[[Addresses], None]) -> None:
        self._path = config.data_dir / STATE_FILE
        self._files, self._clock = files, clock
        self._started_ms = clock.now_ms()
        self._on_ready: Callable[[Addresses], None] | None = on_ready
        self.addresses: Addresses

    def on_change(self, workers: list[WorkerState]) -> None:
        state = state_of(self.addresses, os.getpid(), self._started_ms)
        state["workers"] = [worker._asdict() for worker in workers]
        self._files.write_file(self._path, msgspec.json.encode(state) + b"\n", sync=False)
        if self._on_ready is not None:
            self._on_ready(self.addresses)
            self._on_ready = None
