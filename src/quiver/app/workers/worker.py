"""A worker: a forked process with one event loop that serves until it is told to stop or its supervisor is gone."""

import asyncio
import logging

from quiver.app.config import Config
from quiver.app.serve import Server, run_server, stop_on_signals
from quiver.app.workers.seat import WorkerSeat, share_of
from quiver.model.errors import QuiverError
from quiver.system.processes import Parent
from quiver.telemetry.logs import start_logging

_log = logging.getLogger(__name__)


def run_worker(config: Config, seat: WorkerSeat, parent: Parent) -> int:
    """Returns the exit status: 0 after a clean end."""
    import uvloop

    writer = start_logging(config.log_level, config.log_format, fields={"worker": seat.worker})
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return 0 if runner.run(_serve(share_of(config, seat.workers), seat, parent)) else 1
    except QuiverError as error:
        _log.error("worker %d cannot start: %s", seat.worker, error)
        return 1
    finally:
        writer.stop()


async def _serve(config: Config, seat: WorkerSeat, parent: Parent) -> bool:
    stopping = asyncio.Event()
    stop_on_signals(stopping)
    asyncio.get_running_loop().add_reader(parent.lifeline, _on_lifeline, parent.lifeline, stopping)
    return await run_server(Server(config, seat=seat), stopping, on_ready=lambda _: parent.report_ready())


def _on_lifeline(lifeline: int, stopping: asyncio.Event) -> None:
    asyncio.get_running_loop().remove_reader(lifeline)
    _log.error("the supervisor is gone: stopping")
    stopping.set()
