"""The nodes, the workers, and what each of them owns."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.broker.members import ClusterMembers, MemberNode
from quiver.broker.node import ClusterStatus, MissingWorker, WorkerStatus
from quiver.cluster.placement import CONTROLLER
from quiver.gateways.http.operation import Handler, Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.cluster.units import ClusterUnitResponse, shown_units
from quiver.model.errors import InvalidRequest, NodeInUse, NodeNotFound, NotSupported, QuiverError
from quiver.model.times import format_time

if TYPE_CHECKING:
    from quiver.broker.members import WorkerPlace
    from quiver.routing.facade import Facade

_STATE_FILE = "broker.json"


class WorkerResponse(msgspec.Struct, kw_only=True):
    worker: int
    state: Annotated[str, Meta(description="running, or why it has not responded.")]
    age: Annotated[
        float | None,
        Meta(description="How many seconds ago it said what follows; null: it has not said anything yet."),
    ]
    pid: int | None
    uptime: Annotated[float | None, Meta(description="Seconds.")]
    restarts: Annotated[int, Meta(description="How often it was started again since the broker started.")] = 0
    partitions: Annotated[int | None, Meta(description="How many it owns.")]
    group_shards: Annotated[list[int], Meta(description="Of the 16 shards of stream groups.")]
    roles: Annotated[
        list[str], Meta(description="What one worker has for all: coordination, transactions, schedules.")
    ]
    node: Annotated[str | UnsetType, Meta(description="Of several brokers: the one that runs it.")] = UNSET
    next_node: Annotated[str | UnsetType | None, Meta(description="The one that it moves to.")] = UNSET
    epoch: Annotated[int | UnsetType, Meta(description="Rises with every move.")] = UNSET
    replicas: Annotated[
        list[str] | UnsetType, Meta(description="In a replicated cluster: nodes, the preferred leader first.")
    ] = UNSET
    isr: Annotated[list[str] | UnsetType, Meta(description="Of these: they have everything.")] = UNSET
    eligible: Annotated[list[str] | UnsetType, Meta(description="Outside the in-sync set, and may lead.")] = UNSET
    adding: Annotated[list[str] | UnsetType, Meta(description="On their way into the list.")] = UNSET
    removing: Annotated[list[str] | UnsetType, Meta(description="On their way out of it.")] = UNSET
    min_isr: Annotated[int | UnsetType, Meta(description="How many must have a message before its ack.")] = UNSET
    lag_bytes: Annotated[
        dict[str, int] | UnsetType, Meta(description="Where the asked node leads: what each follower lacks.")
    ] = UNSET
    throttle_bytes_per_sec: Annotated[
        int | UnsetType, Meta(description="Of a reassignment, for the nodes that it adds; 0: none of its own.")
    ] = UNSET


class ClusterQuery(msgspec.Struct):
    units: bool = False


class ClusterNodeResponse(msgspec.Struct, kw_only=True):
    node: str
    state: Annotated[
        str,
        Meta(description="joining (no replica of it is in sync yet), alive, draining, or dead: its lease has ended."),
    ]
    leaders: Annotated[list[int], Meta(description="Units that it leads: it runs their workers.")]
    workers: Annotated[list[int], Meta(description="Another name for `leaders`: the same list.")]
    tags: Annotated[dict[str, str], Meta(description="Where it is: its rack, if it has one.")]
    is_controller: Annotated[bool, Meta(description="It decides who runs what.")]
    host: str | None = None
    native_port: int | None = None
    http_port: int | None = None
    link_port: Annotated[int | None, Meta(description="For the other brokers.")] = None
    pid: int | None = None
    version: str | None = None
    started: str | None = None
    catch_up_bytes_per_second: Annotated[
        int | None, Meta(description="What it sends at most to replicas that are not in sync; 0: no limit.")
    ] = None


class ClusterNodesResponse(msgspec.Struct, kw_only=True):
    node: Annotated[str, Meta(description="The one that was asked.")]
    nodes: Annotated[list[ClusterNodeResponse], Meta(description="A broker on a data directory is the only one.")]


class RemoveQuery(msgspec.Struct):
    dry_run: Annotated[bool, Meta(description="Only shows what would move.")] = False


class RemovedResponse(msgspec.Struct):
    node: str
    removed: Annotated[bool, Meta(description="False for a dry run.")]
    moving: Annotated[
        dict[int, str], Meta(description="Units that it had replicas of, each with the node that gets it.")
    ]


class RebalanceRequest(msgspec.Struct):
    dry_run: Annotated[bool, Meta(description="Only shows what would begin to move.")] = False


class MovesResponse(msgspec.Struct):
    dry_run: bool
    moving: Annotated[dict[int, str], Meta(description="Units on their way, each with the node that gets it.")]
    leaving: Annotated[dict[int, str], Meta(description="The same units, each with the node that it leaves.")]


class ClusterResponse(msgspec.Struct, kw_only=True):
    node_id: str
    workers: list[WorkerResponse]
    node: Annotated[str, Meta(description="The one that was asked.")]
    nodes: Annotated[list[ClusterNodeResponse], Meta(description="A broker on a data directory is the only one.")]
    controller: Annotated[str | None, Meta(description="The node that decides; null: nobody, for the moment.")]
    units: Annotated[
        list[ClusterUnitResponse], Meta(description="By number: who leads them, who has their replicas.")
    ]
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
        found = [_worker(each, "running", 0.0) for each in status.workers]
        found += [_missing(each) for each in status.missing]
        workers = {each.worker: each for each in found}
        for each in found:
            each.restarts = restarts.get(each.worker, 0)
        for place in status.places:
            if (worker := workers.get(place.worker)) is not None:
                worker.node, worker.next_node, worker.epoch = place.node, place.next_node or None, place.epoch
                for name, value in () if place.replicas is None else place.replicas._asdict().items():
                    setattr(worker, name, value)
        members = status.members or self._alone(status)
        response = ClusterResponse(
            node_id=self._broker.node_id,
            workers=[workers[n] for n in sorted(workers)],
            node=members.node,
            nodes=_shown(members),
            controller=next((each.node for each in members.nodes if each.is_controller), None),
            units=shown_units(self._broker, status),
        )
        if query.units:
            response.topics = {topic.name: self._owners(topic) for topic in self._broker.topics()}
        return Response(response)

    def _alone(self, status: ClusterStatus) -> ClusterMembers:
        """A broker on a data directory as the only node. A unit whose worker does not respond has no leader."""
        node, leads = self._broker.node_id, [each.worker for each in status.workers]
        return ClusterMembers(node, [MemberNode(node, "alive", leads, is_controller=True)])

    def _owners(self, topic: Any) -> list[int]:
        return list(self._broker.unit_workers(topic))

    async def nodes(self, request: Request) -> Response:
        members = await self._broker.node.nodes()
        if members is None:
            status = await self._broker.node.cluster()
            members = self._alone(status)
        return Response(ClusterNodesResponse(node=members.node, nodes=_shown(members)))

    async def drain(self, request: Request) -> Response:
        return Response(_member(await self._broker.node.drain(_node(request))))

    async def end_drain(self, request: Request) -> Response:
        return Response(_member(await self._broker.node.drain(_node(request), ends=True)))

    async def remove(self, request: Request) -> Response:
        node, is_dry = _node(request), request.query(RemoveQuery).dry_run
        moving = await self._broker.node.remove(node, dry_run=is_dry)
        return Response(RemovedResponse(node, not is_dry, {place.worker: _successors(place) for place in moving}))

    async def rebalance(self, request: Request) -> Response:
        is_dry = (await request.body(RebalanceRequest)).dry_run
        moving = await self._broker.node.rebalance(dry_run=is_dry)
        successors = {place.worker: _successors(place) for place in moving}
        return Response(MovesResponse(is_dry, successors, {place.worker: _left(place) for place in moving}))

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


def _worker(status: WorkerStatus, state: str, age: float) -> WorkerResponse:
    return WorkerResponse(
        worker=status.worker,
        state=state,
        age=round(age, 3),
        pid=status.pid,
        uptime=round(status.uptime_seconds, 3),
        partitions=status.partitions,
        group_shards=status.group_shards,
        roles=_roles(status.worker),
    )


def _missing(missing: MissingWorker) -> WorkerResponse:
    """With what is known of it."""
    if missing.last is not None:
        return _worker(missing.last, missing.reason, missing.seconds_ago)
    return WorkerResponse(
        worker=missing.worker,
        state=missing.reason,
        age=None,
        pid=None,
        uptime=None,
        partitions=None,
        group_shards=[],
        roles=_roles(missing.worker),
    )


def _roles(worker: int) -> list[str]:
    return ["coordination", "transactions", "schedules"] if worker == CONTROLLER else []


def _node(request: Request) -> str:
    return unquote(request.params["node"])


def _successors(place: "WorkerPlace") -> str:
    return place.next_node or ",".join([] if place.replicas is None else place.replicas.adding)


def _left(place: "WorkerPlace") -> str:
    return place.node if place.next_node else ",".join([] if place.replicas is None else place.replicas.removing)


def _shown(members: ClusterMembers) -> list[ClusterNodeResponse]:
    return [_member(each) for each in members.nodes]


def _member(node: MemberNode) -> ClusterNodeResponse:
    shown = ClusterNodeResponse(
        node=node.node,
        state=node.state,
        leaders=node.leaders,
        workers=node.leaders,
        tags={"rack": node.rack} if node.rack else {},
        is_controller=node.is_controller,
    )
    if not node.pid:
        return shown
    return msgspec.structs.replace(
        shown,
        host=node.host,
        native_port=node.native_port,
        http_port=node.http_port,
        link_port=node.link_port,
        pid=node.pid,
        version=node.version,
        started=format_time(node.started_ms),
        catch_up_bytes_per_second=node.catch_up_bytes_per_second,
    )


def _of_nodes(
    handler: Handler, summary: str, response: Any, *errors: type[QuiverError], query: Any = None, body: Any = None
) -> Operation:
    return Operation(
        handler=handler,
        summary=summary,
        tag="Node",
        response=response,
        errors=(NotSupported, *errors),
        query=query,
        body=body,
    )


def cluster_routes(broker: "Facade", data_dir: Path | None) -> Routes:
    routes = ClusterRoutes(broker, data_dir)
    return {
        "/cluster": {
            "GET": Operation(
                handler=routes.cluster,
                summary="The nodes, the workers, and what each of them owns",
                tag="Node",
                query=ClusterQuery,
                response=ClusterResponse,
            )
        },
        "/cluster/nodes": {
            "GET": _of_nodes(routes.nodes, "The nodes, and which workers each of them runs", ClusterNodesResponse)
        },
        "/cluster/nodes/{node}": {
            "DELETE": _of_nodes(
                routes.remove,
                "Forget a broker that is gone",
                RemovedResponse,
                NodeNotFound,
                NodeInUse,
                InvalidRequest,
                query=RemoveQuery,
            )
        },
        "/cluster/nodes/{node}/drain": {
            "POST": _of_nodes(
                routes.drain, "Have a broker hand over all of its workers", ClusterNodeResponse, NodeNotFound
            ),
            "DELETE": _of_nodes(
                routes.end_drain, "Let a drained broker get workers again", ClusterNodeResponse, NodeNotFound
            ),
        },
        "/cluster/rebalance": {
            "POST": _of_nodes(
                routes.rebalance,
                "Spread the workers over the brokers now",
                MovesResponse,
                InvalidRequest,
                body=RebalanceRequest,
            )
        },
    }
