"""What the scenario needs of a workload."""

from collections.abc import Iterator
from typing import Protocol

from quiver.testing.simulation.history import Violation
from quiver.testing.simulation.processes import ClientProcess, Program


class Workload(Protocol):
    async def prepare(self, process: ClientProcess) -> None:
        """Creates what it needs, before there are faults."""
        ...

    def programs(self) -> dict[str, Program]:
        """What to run while there are faults, each until `is_over`."""
        ...

    async def finish(self, process: ClientProcess) -> None:
        """Settles what is left and reads the final state, when there are no faults any more.

        It is called again after an error that may be tried again.
        """
        ...

    def check(self) -> Iterator[Violation]: ...
