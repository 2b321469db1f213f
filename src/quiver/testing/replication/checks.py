"""What must hold at the end: what was acked is there, once, in order, on all replicas, and nothing else."""

from quiver.replication.unit import PREFIX, Unit, decode_unit
from quiver.storage.local.storage import LocalStorage
from quiver.testing.replication.catalogue import OPTIONS, VOLATILE_WORKER, Place
from quiver.testing.replication.clients import Clients
from quiver.testing.replication.frames import stored_values, value_of
from quiver.testing.replication.node import Cluster, SimulatedNode


class Checks:
    def __init__(self, cluster: Cluster, nodes: list[SimulatedNode], clients: Clients) -> None:
        self._cluster, self._nodes, self._clients = cluster, nodes, clients
        self._final: dict[Place, dict[int, bytes]] = {}
        """By log: what the replicas have at the end."""
        self.read_count = 0

    def units(self) -> dict[int, Unit]:
        items = self._cluster.model.state.range(PREFIX).items
        return {int(item.key.removeprefix(PREFIX)): decode_unit(item.value) for item in items}

    def is_whole(self) -> bool:
        """Every log is served by its preferred leader, and all replicas are in sync and have everything."""
        if self._clients.deleting:
            return False
        for worker, unit in self.units().items():
            host = self._nodes[unit.replicas[0]].host
            if host is None or unit.leader != unit.replicas[0] or len(unit.isr) < 3 or len(unit.replicas) != 3:
                return False
            for place in self._cluster.catalogue.of(worker):
                log = host.logs.get(place)
                if log is None or log.is_over or log.readable_offset < log.end_offset:
                    return False
        return True

    def begin(self) -> None:
        for node in self._nodes:
            loop = node.loop
            assert loop is not None
            loop.call_soon(lambda of=loop, each=node: of.create_task(self._read_replicas(each)))

    async def _read_replicas(self, node: SimulatedNode) -> None:
        assert node.local is not None
        stored = set(await node.local.list_logs())
        for worker, unit in self.units().items():
            here = {place for place in self._cluster.catalogue.of(worker) if node.number in unit.replicas}
            for place in here:
                await self._read_replica(node, node.local, place)
            found = {each for each in stored if each.startswith(f"units/{worker}/")}
            wanted = {f"units/{worker}/{place.log_id}" for place in here}
            if found - wanted:
                self._cluster.on_error(f"node {node.number} still has {sorted(found - wanted)}")
        self.read_count += 1

    async def _read_replica(self, node: SimulatedNode, local: LocalStorage, place: Place) -> None:
        kind = self._cluster.catalogue.logs[place]
        log = await local.open_log(f"units/{place.worker}/{place.log_id}", OPTIONS["data"])
        host = self._nodes[self.units()[place.worker].leader].host
        assert host is not None
        end = host.logs[place].end_offset
        if log.end_offset != end:
            self._cluster.on_error(f"node {node.number} ends {place} at {log.end_offset}, its leader at {end}")
        found = dict(await stored_values(log, log.end_offset))
        final = self._final.setdefault(place, found)
        first = max(min(found, default=0), min(final, default=0), self._cluster.catalogue.dropped.get(place, 0))
        if {o: f for o, f in found.items() if o >= first} != {o: f for o, f in final.items() if o >= first}:
            self._cluster.on_error(f"node {node.number} has other frames in {place}")
        if kind != "journal":
            for offset, frame in found.items():
                self._clients.keep(place, offset, frame, f"node {node.number}")

    def check_acked(self) -> None:
        catalogue, units = self._cluster.catalogue, self.units()
        counts: dict[tuple[Place, int], list[int]] = {}
        for place, frames in self._final.items():
            for offset, frame in frames.items():
                counts.setdefault((place, value_of(frame)), []).append(offset)
        may_have_lost = units[VOLATILE_WORKER].loss_epoch > 0
        for (place, offset), frame in self._clients.read.items():
            if not self._is_checked(place, offset, may_have_lost=may_have_lost):
                continue
            if offset not in counts.get((place, value_of(frame)), []):
                self._cluster.on_error(f"{value_of(frame)} was committed at {place} {offset}, and is gone")
        last: dict[tuple[int, Place], int] = {}
        for sent in self._clients.sent:
            if sent.offset is None or not self._is_checked(sent.place, sent.offset, may_have_lost=may_have_lost):
                continue
            found = counts.get((sent.place, sent.value), [])
            below = catalogue.dropped.get(sent.place, 0)
            if sent.offset not in found or len([each for each in found if each >= below]) > 2:
                self._cluster.on_error(f"{sent.value} was acked at {sent.place} {sent.offset}, and is at {found}")
            if sent.offset <= last.get((sent.client, sent.place), -1):
                self._cluster.on_error(f"{sent.value} of client {sent.client} was acked out of order")
            last[sent.client, sent.place] = sent.offset

    def _is_checked(self, place: Place, offset: int, *, may_have_lost: bool) -> bool:
        catalogue = self._cluster.catalogue
        kind = catalogue.logs.get(place)
        if kind is None or offset < catalogue.dropped.get(place, 0):
            return False
        return kind != "volatile" or not may_have_lost
