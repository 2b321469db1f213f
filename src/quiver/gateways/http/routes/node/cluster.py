"""The workers of the broker, and what each of them owns."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.cluster.placement import CONTROLLER
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_STATE_FILE = "broker.json"


class WorkerResponse(msgspec.Struct, kw_only=True):
    worker: int
    state: Annotated[str, Meta(description="running, or why it has not responded.")]
    pid: int | None
    uptime: Annotated[float | None, Meta(description="Seconds.")]
    restarts: Annotated[int, Meta(description="How often it was started again since the broker started.")]
    partitions: Annotated[int | None, Meta(description="How many it owns.")]
    group_shards: Annotated[list[int], Meta(description="Of the 16 shards of stream groups.")]
    roles: Annotated[
        list[str], Meta(description="What one worker has for all: coordination, transactions, schedules.")
    ]


class ClusterQuery(msgspec.Struct):
    units: bool = False


class ClusterResponse(msgspec.Struct, kw_only=True):
    node_id: str
    workers: list[WorkerResponse]
    topics: Annotated[
        dict[str, list[int]] | UnsetType,
        Meta(description="With ?units=true: the worker of each partition, by topic."),
    ] = UNSET


class ClusterRoutes:
    def __init__(self, broker: "Facade", data_dir: Path | None) -> None:
        self._broker = broker
        self._data_dir = data_dir

    async def cluster(self, request: Request) -> Response:
        query = request.query(ClusterQuery)
        status, restarts = await self._broker.node.cluster(), await asyncio.to_thread(self._restarts)
        workers = {
            each.worker: WorkerResponse(
                worker=each.worker,
                state="running",
                pid=each.pid,
                uptime=round(each.uptime_seconds, 3),
                restarts=restarts.get(each.worker, 0),
                partitions=each.partitions,
                group_shards=each.group_shards,
                roles=_roles(each.worker),
            )
            for each in status.workers
        }
        for worker, reason in status.missing.items():
            workers[worker] = WorkerResponse(
                worker=worker,
                state=reason,
                pid=None,
                uptime=None,
                restarts=restarts.get(worker, 0),
                partitions=None,
                group_shards=[],
                roles=_roles(worker),
            )
        response = ClusterResponse(node_id=self._broker.node_id, workers=[workers[n] for n in sorted(workers)])
        if query.units:
            response.topics = {topic.name: self._owners(topic) for topic in self._broker.topics()}
        return Response(response)

    def _owners(self, topic: Any) -> list[int]:
        return list(self._broker.partition_workers(topic)) or [CONTROLLER] * topic.config.partitions

    def _restarts(self) -> dict[int, int]:
        """As the supervisor has noted them; nothing where there is none."""
        try:
            state = msgspec.json.decode(b"{}" if self._data_dir is None else self._state_path.read_bytes())
        except (OSError, msgspec.DecodeError):
            return {}
        return {each["worker"]: each["restarts"] for each in state.get("workers", ())}

    @property
    def _state_path(self) -> Path:
        assert self._data_dir is not None
        return self._data_dir / _STATE_FILE


def _roles(worker: int) -> list[str]:
    return ["coordination", "transactions", "schedules"] if worker == CONTROLLER else []


def cluster_routes(broker: "Facade", data_dir: Path | None) -> Routes:
    routes = ClusterRoutes(broker, data_dir)
    return {
        "/cluster": {
            "GET": Operation(
                handler=routes.cluster,
                summary="The workers of the broker, and what each of them owns",
                tag="Node",
                query=ClusterQuery,
                response=ClusterResponse,
            )
        }
    }
