"""A node whose cluster is the brokers on one database."""

import os
from functools import partial
from typing import NamedTuple

from quiver import __version__
from quiver.app.addresses import advertised_host
from quiver.app.cluster.assignments import HostedStorage, KeyAssignments
from quiver.app.cluster.cluster_node import ClusterNode, ClusterParts, NewBroker
from quiver.app.config import Config
from quiver.cluster.membership.decisions import WorkerDecisions
from quiver.cluster.membership.records import NodeRecord, Setup
from quiver.cluster.membership.state import ClusterState, ensure_setup, restart_workers
from quiver.cluster.ownership import Assignment
from quiver.coordination.postgres import PostgresCoordination
from quiver.coordination.view import View
from quiver.model.errors import InvalidSetting
from quiver.storage.postgres.database.address import parse_address
from quiver.storage.postgres.storage import PostgresSettings, PostgresStorage
from quiver.system.clock import SystemClock
from quiver.system.files import Files
from quiver.system.network import TcpNetwork
from quiver.system.randomness import SystemRandomness

DEFAULT_WORKERS = 4
_NODE_ID_FILE = "node-id"


class StartedNode(NamedTuple):
    storage: PostgresStorage
    coordination: PostgresCoordination
    node: ClusterNode


async def start_on_postgres(address: str, config: Config, new_broker: NewBroker) -> StartedNode:
    """Nothing stays open after a failure."""
    files, randomness = Files(), SystemRandomness()
    node_id = config.node_id or _kept_node_id(config, files, randomness)
    settings = PostgresSettings(
        read_from=None if config.read_from is None else parse_address(config.read_from),
        buffer_dir=config.buffer_dir,
        buffer_bytes=config.buffer_bytes,
        node_id=node_id,
    )
    storage = PostgresStorage(parse_address(address), settings)
    coordination: PostgresCoordination | None = None
    node: ClusterNode | None = None
    try:
        coordination = PostgresCoordination(storage.resources.database)
        storage.on_buffer_stored = partial(restart_workers, coordination)
        await storage.open()
        await coordination.open()
        wanted = config.cluster_workers or DEFAULT_WORKERS
        setup = await ensure_setup(coordination, Setup(wanted, randomness.token(32).hex()))
        _check_workers(config, setup)
        record = NodeRecord(
            node=node_id,
            incarnation=storage.start_epoch,
            host=advertised_host(config),
            native_port=config.native_port,
            http_port=config.http_port,
            link_port=0,
            pid=os.getpid(),
            started_ms=SystemClock().now_ms(),
            version=__version__,
            link_versions=config.spoken_link_versions,
        )
        parts = _parts(storage, coordination, setup, new_broker)
        node = ClusterNode(record, parts, network=TcpNetwork(), randomness=randomness)
        await node.start(config.host, config.link_port)
    except BaseException:
        if node is not None:
            await node.abandon()
        if coordination is not None:
            await coordination.close()
        await storage.close()
        raise
    return StartedNode(storage, coordination, node)


def _parts(
    storage: PostgresStorage, coordination: PostgresCoordination, setup: Setup, new_broker: NewBroker
) -> ClusterParts:
    state = ClusterState(View(coordination), setup.workers)
    assignments = KeyAssignments(state)

    async def open_storage(worker: int, assignment: Assignment) -> HostedStorage:
        start_epoch = await storage.next_start_epoch()
        await assignments.claim(worker, assignment, start_epoch)
        return storage.of_start(start_epoch)

    return ClusterParts(
        coordination,
        setup,
        state,
        WorkerDecisions(state),
        storage,
        assignments,
        open_storage,
        new_broker,
        is_sole=True,
        is_store_watched=True,
        on_nodes=lambda nodes: storage.share_with(len(nodes) - 1),
    )


def _check_workers(config: Config, setup: Setup) -> None:
    if config.cluster_workers not in (None, setup.workers):
        raise InvalidSetting(
            setting="cluster_workers",
            problem=f"the first broker of this installation has set it to {setup.workers}, and it cannot be changed",
        )


def _kept_node_id(config: Config, files: Files, randomness: SystemRandomness) -> str:
    """That of the last start on this data directory: a broker that is started again takes its own place at once."""
    path = config.data_dir / _NODE_ID_FILE
    try:
        files.make_directory(config.data_dir)
        if _NODE_ID_FILE in files.names(config.data_dir):
            return files.read_file(path).decode().strip()
        node_id = f"node-{randomness.token(4).hex()}"
        files.write_file(path, f"{node_id}\n".encode(), sync=True)
    except OSError as error:
        problem = f"cannot use {config.data_dir}: {error.strerror or error}"
        raise InvalidSetting(setting="data_dir", problem=problem) from error
    return node_id
