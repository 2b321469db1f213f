"""Simulated clients: they publish, make and delete logs, and read what is served."""

import asyncio
from dataclasses import dataclass

from quiver.model.errors import QuiverError
from quiver.replication.leading.log import ReplicatedLog
from quiver.testing.replication.catalogue import WORKERS, Place
from quiver.testing.replication.frames import stored_values, value_of
from quiver.testing.replication.host import DeleteLog, Publish
from quiver.testing.replication.node import Cluster, SimulatedNode

_CALL_SECONDS = 3.0


@dataclass(slots=True)
class Sent:
    """A value is sent once; the network may repeat it."""

    place: Place
    value: int
    client: int
    offset: int | None = None
    """Where it was acked."""


class Clients:
    def __init__(self, cluster: Cluster, nodes: list[SimulatedNode]) -> None:
        self._cluster, self._nodes = cluster, nodes
        self.sent: list[Sent] = []
        self.read: dict[tuple[Place, int], bytes] = {}
        """What readers got, by log and offset."""
        self.is_over = False
        self.deleting: set[Place] = set()

    async def publish(self, number: int) -> None:
        chance, value = self._cluster.world.seeded(f"client/{number}"), number * 1_000_000
        world, catalogue = self._cluster.world, self._cluster.catalogue
        targets = dict.fromkeys(WORKERS, 0)
        while not self.is_over:
            await asyncio.sleep(chance.random() * 0.05)
            value += 1
            place = chance.choice(list(catalogue.logs))
            sent = Sent(place, value, number)
            try:
                async with asyncio.timeout(_CALL_SECONDS):
                    self.sent.append(sent)
                    sent.offset = await self._call(number, targets[place.worker], Publish(place, value))
                world.note("acked", number, value, sent.offset)
            except (QuiverError, OSError) as error:
                world.note("failed", number, value, type(error).__name__)
                targets[place.worker] = chance.choice(self._nodes).number

    async def _call(self, source: int, target: int, message: Publish | DeleteLog) -> int:
        offset: int = await self._cluster.network.call(source, target, message)
        return offset

    async def administrate(self, number: int) -> None:
        """Makes logs and deletes them; a deletion is repeated until it is acked, also after the end of faults."""
        chance, catalogue = self._cluster.world.seeded(f"admin/{number}"), self._cluster.catalogue
        while not self.is_over:
            await asyncio.sleep(chance.random() * 2)
            made = [place for place in catalogue.logs if int(place.log_id.split("/")[1]) > 2]
            if made and chance.random() < 0.4:
                place = chance.choice(made)
                self.deleting.add(place)
                catalogue.delete(place)
                await self._delete(number, place)
            elif len(made) < 4:
                catalogue.create(chance.choice(WORKERS))

    async def _delete(self, number: int, place: Place) -> None:
        chance = self._cluster.world.seeded(f"deletion/{place}")
        while True:
            try:
                async with asyncio.timeout(_CALL_SECONDS):
                    await self._call(number, chance.choice(self._nodes).number, DeleteLog(place))
                self.deleting.discard(place)
                return
            except (QuiverError, OSError):
                await asyncio.sleep(0.1)

    async def look(self, number: int) -> None:
        """Reads what its node serves: whatever readers have seen must stay."""
        while not self.is_over:
            await asyncio.sleep(0.5)
            node = self._nodes[number]
            logs = {} if node.host is None else dict(node.host.logs)
            for place, log in logs.items():
                loop, kind = node.loop, self._cluster.catalogue.logs.get(place)
                if loop is not None and kind is not None and kind != "journal":
                    loop.call_soon(lambda of=loop, each=place, at=log: of.create_task(self._see(each, at)))

    async def _see(self, place: Place, log: ReplicatedLog) -> None:
        try:
            found = await stored_values(log, log.readable_offset)
        except QuiverError:
            return  # its front, or all of it, has just gone
        for offset, frame in found:
            self.keep(place, offset, frame, "a reader")

    def keep(self, place: Place, offset: int, frame: bytes, who: str) -> None:
        before = self.read.setdefault((place, offset), frame)
        if before != frame:
            self._cluster.on_error(
                f"{who} found {value_of(frame)} at {place} {offset}, where {value_of(before)} was committed"
            )
