"""Which modes are on. They are records, so they hold in every process and after a restart."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from quiver.gateways.queen.records import QueenRecords
from quiver.model.errors import QuiverError

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

PushMode = Literal["on", "draining", "off"]
_PUSH, _POP = "maintenance/push", "maintenance/pop"
_LOOK_SECONDS = 1.0
"""How long it may take until another process knows of a change."""


class Modes:
    def __init__(self, broker: "Facade", records: QueenRecords) -> None:
        self._broker = broker
        self._records = records
        self._looked_at: float | None = None
        self._looking: asyncio.Task[None] | None = None
        self.on_draining: Callable[[], None] | None = None
        """Called when buffered pushes are to be moved."""

    @property
    def is_known(self) -> bool:
        """Whether records were read; then they are read again in the background."""
        if self._looked_at is None:
            return False
        if self._broker.clock.monotonic() - self._looked_at > _LOOK_SECONDS and self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_again())
        return True

    async def _look_again(self) -> None:
        try:
            with contextlib.suppress(QuiverError):
                await self.look()
        finally:
            self._looking = None

    async def look(self) -> None:
        await self._records.refresh()
        self._looked_at = self._broker.clock.monotonic()
        if self.push == "draining" and self.on_draining is not None:
            self.on_draining()

    @property
    def push(self) -> PushMode:
        found = self._records.known(_PUSH)
        return "on" if found == b"on" else "draining" if found == b"draining" else "off"

    @property
    def is_pop_stopped(self) -> bool:
        return self._records.known(_POP) == b"on"

    async def set_push(self, mode: PushMode) -> None:
        await self._records.put({_PUSH: None if mode == "off" else mode.encode()})

    async def set_pop(self, *, is_stopped: bool) -> None:
        await self._records.put({_POP: b"on" if is_stopped else None})
