"""One run: brokers, clients and faults for a while, then quiet, then the checks."""

import gc
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from quiver.model.errors import QuiverError
from quiver.testing.simulation.faults import Faults
from quiver.testing.simulation.history import Event, History, Violation
from quiver.testing.simulation.node import Node
from quiver.testing.simulation.processes import ClientProcess, Processes
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.workloads.choice import WORKLOADS, workloads_of
from quiver.testing.simulation.workloads.port import Workload
from quiver.testing.simulation.world import World

_START_SECONDS = 60.0
_END_SECONDS = 600.0
_SHOWN_EVENTS = 40
_WORKERS = [1, 1, 2, 3]


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    seconds: float
    trace_hash: str
    turns: int
    counts: dict[str, int]
    violations: list[str] = field(default_factory=list)


class Plan(NamedTuple):
    """What all seeds have in common."""

    seconds: float
    """Of virtual time with faults."""
    workers: int | None = None
    """Of each broker; without a number, the seed decides."""
    workloads: tuple[str, ...] = WORKLOADS
    """Each node has some of these."""


class Scenario:
    def __init__(self, seed: int, plan: Plan) -> None:
        self._seed, self._seconds = seed, plan.seconds
        self._world = World(seed)
        self._errors: list[str] = []
        self._chance: random.Random = self._world.seeded("scenario")
        self._network = SimulatedNetwork(self._world)
        self.history = History(self._world)
        self._processes = Processes(self._world, self._network, self.history, self._errors.append)
        count = self._chance.choice([1, 1, 1, 2, 3])
        self._nodes = [
            Node(
                self._world,
                self._network,
                f"node-{number}",
                self._errors.append,
                workers=plan.workers or self._chance.choice(_WORKERS),
            )
            for number in range(count)
        ]
        self._faults = Faults(self._world, self._network, self.history, self._nodes, self._processes)
        self._workloads = workloads_of(self.history, self._chance, self._nodes, self._faults, plan.workloads)

    def run(self) -> Report:
        listener = _ErrorListener(self._errors)
        logger = logging.getLogger("quiver")
        logger.addHandler(listener)
        propagates, logger.propagate = logger.propagate, False
        is_enabled = gc.isenabled()
        gc.disable()
        try:
            violations = self._run()
            trace_hash, seconds = self._world.trace_hash, self._world.now
        finally:
            for node in self._nodes:
                node.kill()
            self._world.discard()
            logger.removeHandler(listener)
            logger.propagate = propagates
            if is_enabled:
                gc.enable()
        counted: dict[str, int] = {}
        for event in self.history.all_events():
            counted[event.what] = counted.get(event.what, 0) + 1
        return Report(
            self._seed,
            seconds,
            trace_hash,
            self._world.turns,
            counted,
            violations,
        )

    def _run(self) -> list[str]:
        for step in (self._start, self._disturb, self._settle, self._finish):
            if not step() or self._errors:
                return self._errors or [
                    f"the simulation stands still after {self._world.now:.1f} s in {step.__name__}"
                ]
        found = [violation for _, workload in self._workloads for violation in workload.check()]
        return [self._told(violation) for violation in found]

    def _start(self) -> bool:
        for node in self._nodes:
            node.start()
        if not self._until(lambda: all(node.is_up for node in self._nodes), _START_SECONDS):
            return False
        for number, (place, workload) in enumerate(self._workloads):
            self._processes.start(f"prepare-{number}", place, workload.prepare)
        return self._until(lambda: not self._processes.running, _START_SECONDS)

    def _disturb(self) -> bool:
        for node, workload in self._workloads:
            for name, program in workload.programs().items():
                self._processes.start(f"{node}/{name}", node, program)
        self._faults.begin()
        self._until(lambda: False, self._seconds)
        return True

    def _settle(self) -> bool:
        self._faults.end()
        self._processes.is_over = True
        if not self._until(lambda: all(node.is_up for node in self._nodes), _START_SECONDS):
            return False
        if not self._until(lambda: not self._processes.running, _END_SECONDS):
            self._errors.append(f"these do not end: {self._processes.running}")
        return True

    def _finish(self) -> bool:
        for number, (node, workload) in enumerate(self._workloads):
            self._processes.start(f"finish-{number}", node, partial(self._finish_one, workload))
        return self._until(lambda: not self._processes.running, _END_SECONDS)

    async def _finish_one(self, workload: Workload, process: ClientProcess) -> None:
        """What was slow when the faults ended may make the first calls fail."""
        while True:
            try:
                return await workload.finish(process)
            except QuiverError as error:
                if not error.retryable:
                    self._errors.append(f"{process.name} ended with {type(error).__name__}: {error}")
                    return None
            await process.pause(1.0)

    def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        return self._world.run(lambda: condition() or bool(self._errors), at_most_seconds=seconds)

    def _told(self, violation: Violation) -> str:
        """The sentence, and the events that tell how it came."""
        events = [event for event in self.history.all_events() if violation.about in map(str, event.details.values())]
        around = self._around(events[0].began, events[-1].began) if events else []
        told = sorted({id(event): event for event in (*events, *around)}.values(), key=lambda event: event.began)
        return "\n".join([violation.sentence, *(f"    {event}" for event in told[:_SHOWN_EVENTS])])

    def _around(self, first: float, last: float) -> Iterator[Event]:
        return (
            event for event in self.history.events if event.actor == "world" and first - 5 <= event.began <= last + 5
        )


class _ErrorListener(logging.Handler):
    """What the broker or a client logs as an error, with an exception that nobody expected, is a violation."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            text = logging.Formatter().formatException(record.exc_info)
            self._errors.append(f"logged as an error: {record.getMessage()}\n{text}")
