"""One seed: three nodes, two controllers, clients and faults for a while; then quiet, and the checks."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from quiver.cluster.controller import changed_units
from quiver.coordination.events import Proposed
from quiver.coordination.port import Expected, Put
from quiver.model.errors import QuiverError
from quiver.replication.log import ReplicatedLog
from quiver.replication.storage import PREFIX
from quiver.replication.unit import NOBODY, Unit, decode_unit
from quiver.testing.replication.coordination import CoordinationClient, CoordinationModel
from quiver.testing.replication.network import CallNetwork
from quiver.testing.replication.node import OPTIONS, Publish, SimulatedNode, stored_values, value_of
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.world import World

NODES = (0, 1, 2)
LOGS = ("topics/1/0", "topics/1/1")
_CLIENTS = 3
_CONTROLLERS = (100, 101)
_DECIDE_SECONDS = 0.3
_CALL_SECONDS = 3.0
_LATE_CALLS_SECONDS = 5.0
"""After the last fault, calls that were sent before arrive."""
_QUIET_SECONDS = 60.0


@dataclass(slots=True)
class Sent:
    """A value is sent once; the network may repeat it."""

    log_id: str
    value: int
    client: int
    offset: int | None = None
    """Where it was acked."""


@dataclass(slots=True)
class ReplicationReport:
    seed: int
    trace_hash: str
    acked: int
    sent: int
    epochs: int
    """That the logs had, together."""
    violations: list[str] = field(default_factory=list)


class ReplicationScenario:
    def __init__(self, seed: int, seconds: float) -> None:
        self.seed, self._seconds = seed, seconds
        self._world = World(seed)
        self._chance = self._world.seeded("faults")
        self._errors: list[str] = []
        self._network = CallNetwork(self._world)
        self._model = CoordinationModel(self._world)
        self.nodes = [
            SimulatedNode(number, self._world, self._network, self._model, self._errors.append) for number in NODES
        ]
        self._sent: list[Sent] = []
        self._read: dict[tuple[str, int], bytes] = {}
        """What readers got, by log and offset."""
        self._final: dict[str, list[tuple[int, bytes]]] = {}
        """By log: what the replicas have at the end."""
        self._read_count = 0
        self._is_over = False

    def run(self) -> ReplicationReport:
        is_enabled = gc.isenabled()
        gc.disable()
        try:
            self._prepare()
            self._until(lambda: self._is_over, self._seconds + 1)
            self._calm()
            self._until(lambda: False, _LATE_CALLS_SECONDS)
            self._until(self._is_whole, _QUIET_SECONDS)
            if not self._errors and not self._is_whole():
                self._errors.append(f"the replicas do not come together: {self._units()}")
            if not self._errors:
                self._read_everything()
            acked = sum(sent.offset is not None for sent in self._sent)
            epochs = sum(unit.epoch for unit in self._units().values())
            return ReplicationReport(
                self.seed, self._world.trace_hash, acked, len(self._sent), epochs, list(self._errors)
            )
        finally:
            for node in self.nodes:
                node.kill()
            self._world.discard()
            if is_enabled:
                gc.enable()

    def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        self._world.run(lambda: condition() or bool(self._errors), at_most_seconds=seconds)

    def _prepare(self) -> None:
        for number, log_id in enumerate(LOGS):
            order = NODES[number:] + NODES[:number]
            unit = Unit(replicas=order, isr=order, leader=NOBODY, min_isr=2)
            self._model.state.apply(Proposed(0, [], [Put(PREFIX + log_id, unit.key_value)]))
        for node in self.nodes:
            node.start()
        for number in _CONTROLLERS:
            self._process(f"controller-{number}", self._control, number)
        for number in range(_CLIENTS):
            self._process(f"client-{number}", self._publish, 200 + number)
            self._process(f"reader-{number}", self._look, number)
        self._world.later(1.0, self._disturb)
        self._world.later(self._seconds, self._end)

    def _process(self, name: str, run: Callable[[int], Coroutine[Any, Any, None]], number: int) -> None:
        loop = SimulatedLoop(self._world, name, self._errors.append)
        loop.call_soon(lambda: loop.create_task(run(number)))

    def _end(self) -> None:
        self._is_over = True

    # processes

    async def _control(self, number: int) -> None:
        client = CoordinationClient(self._model, number)
        while True:
            await asyncio.sleep(_DECIDE_SECONDS)
            try:
                nodes = await client.nodes()
                found = {item.key: item for item in (await client.range(PREFIX)).items}
                units = {key: decode_unit(item.value) for key, item in found.items()}
                for key, unit in changed_units(units, nodes).items():
                    await client.commit([Expected(key, found[key].revision)], [Put(key, unit.key_value)])
            except QuiverError:
                continue

    async def _publish(self, number: int) -> None:
        chance, value = self._world.seeded(f"client/{number}"), number * 1_000_000
        targets = dict.fromkeys(LOGS, 0)
        while not self._is_over:
            await asyncio.sleep(chance.random() * 0.05)
            value += 1
            sent = Sent(chance.choice(LOGS), value, number)
            try:
                async with asyncio.timeout(_CALL_SECONDS):
                    self._sent.append(sent)
                    sent.offset = await self._network.call(number, targets[sent.log_id], Publish(sent.log_id, value))
                self._world.note("acked", number, value, sent.offset)
            except (QuiverError, OSError) as error:
                self._world.note("failed", number, value, type(error).__name__)
                targets[sent.log_id] = chance.choice(NODES)

    async def _look(self, number: int) -> None:
        """Reads what its node serves: whatever readers have seen must stay."""
        while not self._is_over:
            await asyncio.sleep(0.5)
            for log_id, log in list(self.nodes[number].led.items()):
                loop = self.nodes[number].loop
                if loop is not None:
                    loop.call_soon(lambda of=loop, each=log_id, at=log: of.create_task(self._see(each, at)))

    async def _see(self, log_id: str, log: ReplicatedLog) -> None:
        for offset, frame in await stored_values(log, log.readable_offset):
            self._keep(log_id, offset, frame, "a reader")

    def _keep(self, log_id: str, offset: int, frame: bytes, who: str) -> None:
        before = self._read.setdefault((log_id, offset), frame)
        if before != frame:
            self._errors.append(
                f"{who} found {value_of(frame)} at {log_id} {offset}, where {value_of(before)} was committed"
            )

    # faults

    def _disturb(self) -> None:
        if self._is_over:
            return
        faults = (self._kill, self._kill, self._cut_power, self._pause, self._cut, self._cut, self._lose_coordination)
        self._chance.choice(faults)()
        self._world.later(0.2 + self._chance.random() * 3, self._disturb)

    def _kill(self) -> None:
        node = self._chance.choice(self.nodes)
        node.kill()
        self._world.later(self._chance.random() * 4, self._start, node)

    def _cut_power(self) -> None:
        struck = self.nodes if self._chance.random() < 0.2 else [self._chance.choice(self.nodes)]
        for node in struck:
            node.cut_power()
            self._world.later(self._chance.random() * 4, self._start, node)

    def _start(self, node: SimulatedNode) -> None:
        if not node.is_running:
            node.start()

    def _pause(self) -> None:
        loop = self._chance.choice(self.nodes).loop
        if loop is not None:
            loop.pause()
            self._world.later(self._chance.random() * 5, loop.resume)

    def _cut(self) -> None:
        source, target = self._chance.sample(NODES, 2)
        pairs = {(source, target)} if self._chance.random() < 0.5 else {(source, target), (target, source)}
        self._network.cut |= pairs
        self._world.later(self._chance.random() * 5, self._network.cut.difference_update, pairs)

    def _lose_coordination(self) -> None:
        if self._chance.random() < 0.3:
            self._model.is_away = True
            self._world.later(self._chance.random() * 3, setattr, self._model, "is_away", False)
        else:
            node = self._chance.choice(NODES)
            self._model.cut_off.add(node)
            self._world.later(self._chance.random() * 5, self._model.cut_off.discard, node)

    def _calm(self) -> None:
        self._is_over = self._network.is_calm = True
        self._network.cut.clear()
        self._model.cut_off.clear()
        self._model.is_away = False
        for node in self.nodes:
            if node.loop is not None:
                node.loop.resume()
            self._start(node)

    # checks

    def _units(self) -> dict[str, Unit]:
        items = self._model.state.range(PREFIX).items
        return {item.key.removeprefix(PREFIX): decode_unit(item.value) for item in items}

    def _is_whole(self) -> bool:
        """Every log is served by its preferred leader, and all replicas are in sync and have everything."""
        for log_id, unit in self._units().items():
            led = self.nodes[unit.replicas[0]].led.get(log_id)
            if led is None or led.is_over or unit.leader != unit.replicas[0] or len(unit.isr) < len(NODES):
                return False
            if led.readable_offset < led.end_offset:
                return False
        return True

    def _read_everything(self) -> None:
        for node in self.nodes:
            assert node.loop is not None
            loop = node.loop
            loop.call_soon(lambda of=loop, each=node: of.create_task(self._read_replica(each)))
        self._until(lambda: self._read_count == len(self.nodes), _QUIET_SECONDS)
        if self._read_count < len(self.nodes):
            self._errors.append("the replicas cannot be read")
            return
        self._check_acked()

    async def _read_replica(self, node: SimulatedNode) -> None:
        assert node.local is not None
        for log_id in LOGS:
            log = await node.local.open_log(log_id, OPTIONS)
            end = self.nodes[self._units()[log_id].leader].led[log_id].end_offset
            if log.end_offset != end:
                self._errors.append(f"node {node.number} ends {log_id} at {log.end_offset}, its leader at {end}")
            found = await stored_values(log, log.end_offset)
            self._final.setdefault(log_id, found)
            if self._final[log_id] != found:
                self._errors.append(f"node {node.number} has other bytes in {log_id}")
            for offset, frame in found:
                self._keep(log_id, offset, frame, f"node {node.number}")
        self._read_count += 1

    def _check_acked(self) -> None:
        places: dict[tuple[str, int], list[int]] = {}
        for log_id, frames in self._final.items():
            for offset, frame in frames:
                places.setdefault((log_id, value_of(frame)), []).append(offset)
        for (log_id, offset), frame in self._read.items():
            if offset not in places.get((log_id, value_of(frame)), []):
                self._errors.append(f"{value_of(frame)} was committed at {log_id} {offset}, and is gone")
        last: dict[tuple[int, str], int] = {}
        for sent in self._sent:
            found = places.get((sent.log_id, sent.value), [])
            if sent.offset is not None and sent.offset not in found:
                self._errors.append(f"{sent.value} was acked at {sent.log_id} {sent.offset}, and is at {found}")
            if sent.offset is not None:
                if sent.offset <= last.get((sent.client, sent.log_id), -1):
                    self._errors.append(f"{sent.value} of client {sent.client} was acked out of order")
                last[sent.client, sent.log_id] = sent.offset
