"""One run of anything that is simulated: machines, clients and faults for a while, then quiet, then the checks."""

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from quiver.model.errors import QuiverError
from quiver.testing.simulation.history import Event, History, Violation
from quiver.testing.simulation.processes import ClientProcess, Processes
from quiver.testing.simulation.workloads.port import Workload
from quiver.testing.simulation.world import World

_START_SECONDS = 60.0
_END_SECONDS = 600.0
_SHOWN_EVENTS = 40


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    seconds: float
    trace_hash: str
    turns: int
    counts: dict[str, int]
    violations: list[str] = field(default_factory=list)


class Place(NamedTuple):
    """Where a workload runs: what its processes are named after, and the brokers that they connect to."""

    name: str
    address: str


class Machine(Protocol):
    def start(self) -> None: ...

    def kill(self) -> None: ...


class FaultSource(Protocol):
    def begin(self) -> None: ...

    def end(self) -> None:
        """No more of them: what is down comes up, what is slow is fast again."""
        ...


class Parts(NamedTuple):
    world: World
    history: History
    processes: Processes
    errors: list[str]
    """What must not have happened."""
    machines: Sequence[Machine]
    is_up: Callable[[], bool]
    """Whether everything serves."""
    faults: FaultSource
    workloads: list[tuple[Place, Workload]]


class Run:
    def __init__(self, seconds: float, parts: Parts) -> None:
        self._seconds, self._parts = seconds, parts
        self._world, self._errors = parts.world, parts.errors

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
            for machine in self._parts.machines:
                machine.kill()
            self._world.discard()
            logger.removeHandler(listener)
            logger.propagate = propagates
            if is_enabled:
                gc.enable()
        counted: dict[str, int] = {}
        for event in self._parts.history.all_events():
            counted[event.what] = counted.get(event.what, 0) + 1
        return Report(self._world.seed, seconds, trace_hash, self._world.turns, counted, violations)

    def _run(self) -> list[str]:
        for step in (self._start, self._disturb, self._settle, self._finish):
            if not step() or self._errors:
                return list(self._errors) or [
                    f"the simulation stands still after {self._world.now:.1f} s in {step.__name__}"
                ]
        found = [violation for _, workload in self._parts.workloads for violation in workload.check()]
        return [self._told(violation) for violation in found]

    def _start(self) -> bool:
        for machine in self._parts.machines:
            machine.start()
        if not self._until(self._parts.is_up, _START_SECONDS):
            return False
        for number, (place, workload) in enumerate(self._parts.workloads):
            prepare = partial(self._prepare_one, workload)
            self._parts.processes.start(f"{place.name}/prepare-{number}", place.address, prepare)
        return self._until(lambda: not self._parts.processes.running, _START_SECONDS)

    async def _prepare_one(self, workload: Workload, process: ClientProcess) -> None:
        """Nothing is broken yet."""
        try:
            await workload.prepare(process)
        except QuiverError as error:
            self._errors.append(f"{process.name} ended with {type(error).__name__}: {error}")

    def _disturb(self) -> bool:
        for place, workload in self._parts.workloads:
            for name, program in workload.programs().items():
                self._parts.processes.start(f"{place.name}/{name}", place.address, program)
        self._parts.faults.begin()
        self._until(lambda: False, self._seconds)
        return True

    def _settle(self) -> bool:
        processes = self._parts.processes
        self._parts.faults.end()
        processes.is_over = True
        if not self._until(self._parts.is_up, _START_SECONDS):
            return False
        if not self._until(lambda: not processes.running, _END_SECONDS):
            self._errors.append(f"these do not end: {processes.running}")
        return True

    def _finish(self) -> bool:
        processes = self._parts.processes
        for number, (place, workload) in enumerate(self._parts.workloads):
            processes.start(f"{place.name}/finish-{number}", place.address, partial(self._finish_one, workload))
        return self._until(lambda: not processes.running, _END_SECONDS)

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
        everything = self._parts.history.all_events()
        events = [event for event in everything if violation.about in map(str, event.details.values())]
        around = self._around(events[0].began, events[-1].began) if events else []
        told = sorted({id(event): event for event in (*events, *around)}.values(), key=lambda event: event.began)
        return "\n".join([violation.sentence, *(f"    {event}" for event in told[:_SHOWN_EVENTS])])

    def _around(self, first: float, last: float) -> Iterator[Event]:
        events = self._parts.history.events
        return (event for event in events if event.actor == "world" and first - 5 <= event.began <= last + 5)


class _ErrorListener(logging.Handler):
    """What the broker or a client logs as an error, with an exception that nobody expected, is a violation."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            text = logging.Formatter().formatException(record.exc_info)
            self._errors.append(f"logged as an error: {record.getMessage()}\n{text}")
