"""A broker of several workers as a program: `python worker_program.py DATA_DIR WORKERS [crash]`.

Each worker has logs of its own, below DATA_DIR/N: nothing passes requests to owners yet. With `crash`, worker 1 ends
with status 3 before it is ready.
"""

import os
import sys

from quiver.app.workers.environment import WITHOUT_THREADS

os.environ |= WITHOUT_THREADS

import msgspec
import uvloop  # noqa: F401 - imported before the fork

from quiver.app.addresses import Addresses
from quiver.app.config import Config, load_config
from quiver.app.workers.node import supervise
from quiver.app.workers.seat import WorkerSeat
from quiver.app.workers.worker import run_worker
from quiver.storage.local.data_directory import DataDirectory
from quiver.system.clock import SystemClock
from quiver.system.files import Files
from quiver.system.processes import Parent
from quiver.telemetry.logs import start_direct_logging


def run(config: Config, seat: WorkerSeat, parent: Parent) -> int:
    if seat.worker == 1 and "crash" in sys.argv:
        return 3
    own = config.data_dir / str(seat.worker)
    directory = DataDirectory(own, Files(), SystemClock())
    directory.logs_path.mkdir(parents=True, exist_ok=True)
    directory.ensure_start_epoch()
    return run_worker(msgspec.structs.replace(config, data_dir=own), seat, parent)


def on_ready(addresses: Addresses) -> None:
    print("ready", flush=True)


if __name__ == "__main__":
    flags = {"data_dir": sys.argv[1], "http_port": 0, "native_port": 0, "auto_create": True}
    config = msgspec.structs.replace(load_config(flags, environment={}).config, workers=int(sys.argv[2]))
    start_direct_logging()
    sys.exit(supervise(config, on_ready=on_ready, run=run))
