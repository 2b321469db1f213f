"""A broker on a data directory, without ports: what `serve` and the embedded broker have in common."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from quiver.app.config import Config
from quiver.app.workers.inbox_reader import InboxReader
from quiver.app.workers.seat import WorkerSeat
from quiver.broker.broker import Broker, BrokerSettings
from quiver.cluster.placement import ALONE, Placement
from quiver.coordination.port import Coordination
from quiver.links.peers import Peers
from quiver.model.errors import InvalidSetting
from quiver.queues.partition.frame_cache import FrameCache
from quiver.routing.facade import Facade
from quiver.routing.worker import Worker
from quiver.storage.compactor import process_compactor
from quiver.storage.history import History
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import Storage
from quiver.topics.replica_counts import ONE_REPLICA, ReplicaCounts

if TYPE_CHECKING:
    from quiver.app.cluster.cluster_node import ClusterNode, NewBroker
    from quiver.coordination.postgres import PostgresCoordination

_log = logging.getLogger(__name__)


class OpenData(Protocol):
    """What is under a broker."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Data:
    """Where a broker keeps everything."""

    storage: Storage
    coordination: "PostgresCoordination | None" = None
    """Without it, coordination is in a journal of the broker."""

    async def close(self) -> None:
        if self.coordination is not None:
            await self.coordination.close()
        await self.storage.close()


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A started broker and what is under it."""

    data: OpenData
    broker: Broker
    facade: Facade
    """What gateways call: the broker itself unless it is one worker of several."""
    node: "ClusterNode | None" = None
    """Where several brokers share a database: then `broker` owns nothing, and this runs the workers."""
    outage: Callable[[], str | None] | None = None
    """Why the database cannot be used now."""

    @property
    def brokers(self) -> list[Broker]:
        """Of all workers in this process."""
        workers = [] if self.node is None else self.node.hosting.all_running
        return [self.broker, *(worker.local for worker in workers)]

    async def finish(self) -> None:
        """Refuses new work and finishes what was accepted."""
        await (self.broker.stop() if self.node is None else self.node.stop_working())

    async def close(self) -> None:
        if self.node is not None:
            await self.node.close()
        await self.data.close()

    async def stop(self) -> None:
        """Finishes what was accepted, syncs and closes; safe to call again."""
        try:
            await self.finish()
        finally:
            await self.close()


async def start_broker(config: Config, *, in_memory: bool = False) -> RunningBroker:
    """Opens the data directory or the database and starts a broker on it; one in memory touches neither.

    Raises DataDirectoryInUse if another process uses it, InvalidSetting if it cannot be used. Nothing
    stays open after a failure.
    """
    if config.storage is not None and not in_memory:
        return await _start_on_database(config.storage, config)
    if config.cluster is not None and not in_memory:
        return await _start_in_cluster(config)
    data = await _open_data(config, in_memory=in_memory)
    broker = Broker(data.storage, limits=config.limits, settings=_settings(config, ALONE))
    try:
        await broker.start()
    except BaseException:
        await _abandon(broker, data)
        raise
    return RunningBroker(data, broker, broker)


async def start_worker(config: Config, seat: WorkerSeat, inbox: InboxReader) -> tuple[RunningBroker, Peers]:
    """The same for one worker of several. It takes links of the others before it starts: they may wait for it."""
    storage, placement = await _open_directory(config, seat), Placement(seat.worker, seat.workers)

    def new_broker(coordination: Coordination | None) -> Broker:
        settings = _settings(config, placement)
        return Broker(storage, limits=config.limits, settings=settings, coordination=coordination)

    worker = Worker(placement, seat.dial, new_broker, seat.counters)
    inbox.start(worker.peers.accept)
    try:
        await worker.start()
    except BaseException:
        inbox.stop()
        await worker.peers.close(0)
        await _abandon(worker.local, Data(storage))
        raise
    return RunningBroker(Data(storage), worker.local, worker.broker), worker.peers


def _settings(
    config: Config,
    placement: Placement,
    replicas: ReplicaCounts = ONE_REPLICA,
    frames: FrameCache | None = None,
) -> BrokerSettings:
    return BrokerSettings(
        auto_create=config.auto_create,
        topic_defaults=config.topic_defaults,
        transaction_max_ms=config.transaction_max_ms,
        delivery_history=History(config.delivery_history_ms, config.delivery_history_bytes),
        placement=placement,
        replicas=replicas,
        frames=frames,
    )


async def _open_data(config: Config, *, in_memory: bool) -> Data:
    if in_memory:
        return Data(MemoryStorage())
    if config.read_from is not None:
        raise InvalidSetting(setting="read_from", problem="needs --storage: it names a standby of that database")
    if config.buffer_dir is not None:
        raise InvalidSetting(
            setting="buffer_dir", problem="needs --storage: it is for the time without that database"
        )
    return Data(await _open_directory(config, None))


async def _start_on_database(address: str, config: Config) -> RunningBroker:
    try:
        from quiver.app.cluster.on_postgres import start_on_postgres
    except ModuleNotFoundError as error:
        problem = f"{error.name} is not installed; install quivermq[postgres]"
        raise InvalidSetting(setting="storage", problem=problem) from error

    storage, coordination, node = await start_on_postgres(address, config, _new_broker(config))
    return RunningBroker(
        Data(storage, coordination), node.gateway.local, node.gateway.broker, node, lambda: storage.outage
    )


async def _start_in_cluster(config: Config) -> RunningBroker:
    from quiver.app.cluster.on_etcd import start_on_etcd

    storage = await _open_directory(config, None)
    data, node = await start_on_etcd(config, storage, partial(_new_broker, config))
    return RunningBroker(data, node.gateway.local, node.gateway.broker, node)


def _new_broker(config: Config, replicas: ReplicaCounts = ONE_REPLICA) -> "NewBroker":
    frames = FrameCache()

    def new_broker(placement: Placement, storage: Storage, coordination: Coordination) -> Broker:
        settings = _settings(config, placement, replicas, frames)
        return Broker(storage, limits=config.limits, settings=settings, coordination=coordination)

    return new_broker


async def _open_directory(config: Config, seat: WorkerSeat | None) -> LocalStorage:
    settings = LocalSettings(config.max_open_files or None, config.min_free_bytes, config.sync_threads)
    if seat is not None:
        settings = settings._replace(worker=seat.worker, workers=seat.workers, lock_fd=seat.lock_fd)
    storage = LocalStorage(
        config.data_dir,
        settings,
        LocalSystem(new_compactor=process_compactor),
    )
    try:
        await storage.open()
    except BaseException as error:
        await storage.close()
        if not isinstance(error, OSError):
            raise
        problem = f"cannot use {config.data_dir}: {error.strerror or error}"
        raise InvalidSetting(setting="data_dir", problem=problem) from error
    return storage


async def _abandon(broker: Broker, data: Data) -> None:
    """Closes a broker whose start failed; the first error is the one worth reporting."""
    for end in (broker.stop, data.close):
        try:
            await end()
        except Exception:
            _log.warning("another error while closing after a failed start", exc_info=True)
