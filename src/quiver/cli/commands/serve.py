"""`quiver serve`: runs a broker until SIGTERM or Ctrl-C."""

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from quiver.app.config import Config, LoadedConfig
from quiver.cli.lazy_group import command_app
from quiver.cli.options.config import with_config
from quiver.storage.postgres.database.address import masked_address

if TYPE_CHECKING:
    from quiver.app.addresses import Addresses


@with_config
def serve(loaded: LoadedConfig) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    Every option can also be set in the environment (QUIVER_DATA_DIR, ...) and in a TOML file; `quiver config`
    shows what is in force.
    """
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    run = _run if loaded.config.workers == 1 else _run_workers
    if not run(loaded.config):
        _end_at_once()


def _run(config: Config) -> bool:
    import asyncio

    import uvloop

    from quiver.app.serve import serve as run_broker
    from quiver.telemetry.logs import start_logging

    writer = start_logging(config.log_level, config.log_format)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            clean = runner.run(run_broker(config, on_ready=lambda addresses: _banner(config, addresses)))
    finally:
        # The interpreter takes Python's handlers away while it ends, but leaves ignored signals ignored.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        writer.stop()
    return clean


def _run_workers(config: Config) -> bool:
    from quiver.app.workers.environment import WITHOUT_THREADS

    os.environ |= WITHOUT_THREADS

    import uvloop  # noqa: F401 - imported once, before the fork

    from quiver.app.workers.node import supervise
    from quiver.telemetry.logs import start_direct_logging

    start_direct_logging(config.log_level, config.log_format)
    return supervise(config, on_ready=lambda addresses: _banner(config, addresses)) == 0


def _leave(number: int, frame: Any) -> None:
    """A signal before the event loop has its own handlers: nothing is open yet, so leave.

    Not by an exception, which somebody's import could catch.
    """
    os._exit(0)


def _banner(config: Config, addresses: "Addresses") -> None:
    import quiver

    lines = (
        f"Quiver {quiver.__version__} is ready (process {os.getpid()})",
        f"  native  {addresses.native}",
        f"  http    {addresses.http}   (docs: {addresses.http}/docs)",
        *([] if addresses.queen is None else [f"  queen   {addresses.queen}"]),
        f"  console {addresses.http}/console",
        f"  data    {config.data_dir.resolve() if config.storage is None else masked_address(config.storage)}",
    )
    try:
        print("\n".join(lines), flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - nobody reads the banner; it stays open to the end


def _end_at_once() -> None:
    """Ends without waiting for threads that hang in the kernel (a dead disk); the shutdown has timed out already."""
    sys.stdout.flush()
    os._exit(1)


app = command_app(serve)
