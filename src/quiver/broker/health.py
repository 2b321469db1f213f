"""Health: which parts of the broker do not work, and which were found damaged."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from quiver.delays.service import Delays
from quiver.model.errors import QuiverError
from quiver.queues.service import Queues
from quiver.storage.port import Storage
from quiver.topics.partitions import Partitions


class Part(Protocol):
    @property
    def problem(self) -> QuiverError | None: ...


class BackgroundTask(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def problem(self) -> str | None: ...


class HealthReport(NamedTuple):
    problems: dict[str, str]
    """What cannot be written or read, or does not run, and why; empty when all is well."""
    warnings: dict[str, str]
    """What was found damaged or wrong, although everything can be read and written."""


class Health:
    def __init__(
        self,
        storage: Storage,
        partitions: Partitions,
        delays: Delays,
        queues: Queues,
        *,
        parts: Mapping[str, Part],
        tasks: Sequence[BackgroundTask],
    ) -> None:
        self._storage = storage
        self._partitions = partitions
        self._delays = delays
        self._queues = queues
        self._parts = parts
        self._tasks = tasks

    def problems(self) -> dict[str, str]:
        """What cannot be written or read, or does not run, and why; empty when all is well, and while publishes are
        taken into a local buffer: or nobody would send them."""
        return {} if self._is_buffering() else self._found_problems()

    def _is_buffering(self) -> bool:
        buffer = self._storage.buffer_numbers
        return buffer is not None and buffer.is_in_use

    def _found_problems(self) -> dict[str, str]:
        found = {p.name: p.log.failure for p in self._partitions.all() if p.log.failure is not None}
        found |= self._delays.problems()
        found |= self._queues.problems()
        found |= {name: str(part.problem) for name, part in self._parts.items() if part.problem is not None}
        found |= {f"task {task.name}": task.problem for task in self._tasks if task.problem is not None}
        if self._storage.problem is not None:
            found["storage"] = self._storage.problem
        return found

    def warnings(self) -> dict[str, str]:
        """What was found damaged or wrong, although everything can be read and written."""
        found = self._storage.warnings
        if self._is_buffering():
            found |= self._found_problems()
        schedule_logs = [schedule for _, schedule in self._delays.schedule_logs()]
        for partition in (*self._partitions.all(), *schedule_logs):
            if problem := partition.saved_state.memory_loss or partition.times_ahead:
                found[partition.name] = problem
        return found
