"""Coordination on a storage, and a view of it, for tests of what lives there."""

from quiver.coordination.local import LocalCoordination
from quiver.coordination.view import View
from quiver.storage.port import Storage
from quiver.system.clock import SystemClock


class Metadata:
    """What follows the view is made between the beginning and `open`."""

    def __init__(self) -> None:
        self.coordination = LocalCoordination(clock=SystemClock())
        self.view = View(self.coordination)

    async def open(self, storage: Storage) -> None:
        await self.coordination.open(storage, await storage.next_start_epoch())
        await self.view.open()

    async def close(self) -> None:
        await self.view.close()
        await self.coordination.close()
