"""Units: what has one leader and one list of replicas. A unit is a worker, with all of its partitions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from quiver.broker.members import WorkerPlace
    from quiver.broker.node import ClusterStatus
    from quiver.routing.facade import Facade


class ClusterUnitResponse(msgspec.Struct, kw_only=True):
    unit: Annotated[int, Meta(description="The number of the worker.")]
    leader: Annotated[str | None, Meta(description="The node that does its work; null: nobody, for the moment.")]
    epoch: Annotated[int, Meta(description="Rises with every change of the leader.")]
    replicas: Annotated[list[str], Meta(description="Nodes, the preferred leader first.")]
    isr: Annotated[list[str], Meta(description="Of these: they have everything.")]
    eligible: Annotated[list[str], Meta(description="Outside the in-sync set, and may lead.")]
    adding: Annotated[list[str], Meta(description="On their way into the list.")]
    removing: Annotated[list[str], Meta(description="On their way out of it.")]
    min_isr: Annotated[int, Meta(description="How many must have a message before its ack.")]
    lag_bytes: Annotated[dict[str, int], Meta(description="Where the asked node leads: what each follower lacks.")]

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def is_behind(self) -> bool:
        return set(self.isr) < set(self.replicas)

    @property
    def is_refusing(self) -> bool:
        return len(self.isr) < self.min_isr


async def units_of(broker: "Facade") -> list[ClusterUnitResponse]:
    """By number. What this node knows, without asking others where there are others."""
    places = broker.node.places()
    return [_of_place(place) for place in places] if places else _of_one_node(broker, await broker.node.cluster())


def shown_units(broker: "Facade", status: "ClusterStatus") -> list[ClusterUnitResponse]:
    """The same, where the status of the workers is known already."""
    return [_of_place(place) for place in status.places] if status.places else _of_one_node(broker, status)


def _of_one_node(broker: "Facade", status: "ClusterStatus") -> list[ClusterUnitResponse]:
    """A unit without its worker has no leader until the worker is started again."""
    node = broker.node_id
    found = [_unit(each.worker, node, each.leader_epoch, [node]) for each in status.workers]
    found += [_unit(each.worker, None, 0, [node]) for each in status.missing]
    return sorted(found, key=lambda unit: unit.unit)


def _of_place(place: "WorkerPlace") -> ClusterUnitResponse:
    leader, replicas = place.node or None, place.replicas
    if replicas is None:
        return _unit(place.worker, leader, place.epoch, [place.node] if place.node else [])
    return ClusterUnitResponse(
        unit=place.worker,
        leader=leader,
        epoch=place.epoch,
        replicas=replicas.replicas,
        isr=replicas.isr,
        eligible=replicas.eligible,
        adding=replicas.adding,
        removing=replicas.removing,
        min_isr=replicas.min_isr,
        lag_bytes=replicas.lag_bytes,
    )


def _unit(worker: int, leader: str | None, epoch: int, replicas: Sequence[str]) -> ClusterUnitResponse:
    """Where messages are stored once."""
    return ClusterUnitResponse(
        unit=worker,
        leader=leader,
        epoch=epoch,
        replicas=list(replicas),
        isr=[] if leader is None else list(replicas),
        eligible=[],
        adding=[],
        removing=[],
        min_isr=1,
        lag_bytes={},
    )
