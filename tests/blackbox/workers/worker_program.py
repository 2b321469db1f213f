"""A broker of several workers as a program: `python worker_program.py DATA_DIR WORKERS [crash]`.

With `crash`, worker 1 ends with status 3 before it is ready.
"""

import os
import sys

from quiver.app.workers.environment import WITHOUT_THREADS

os.environ |= WITHOUT_THREADS

import uvloop  # noqa: F401 - imported before the fork

from quiver.app.addresses import Addresses
from quiver.app.config import Config, load_config
from quiver.app.workers.node import supervise
from quiver.app.workers.seat import WorkerSeat
from quiver.app.workers.worker import run_worker
from quiver.system.processes import Parent
from quiver.telemetry.logs import start_direct_logging


def run(config: Config, seat: WorkerSeat, parent: Parent) -> int:
    if seat.worker == 1 and "crash" in sys.argv:
        return 3
    return run_worker(config, seat, parent)


def on_ready(addresses: Addresses) -> None:
    print("ready", flush=True)


if __name__ == "__main__":
    flags = {"data_dir": sys.argv[1], "http_port": 0, "native_port": 0, "auto_create": True, "workers": sys.argv[2]}
    config = load_config(flags, environment={}).config
    start_direct_logging()
    sys.exit(supervise(config, on_ready=on_ready, run=run))
