"""The storage of one worker's broker, while this node leads the worker's unit."""

import asyncio

from quiver.log.files.sync_times import SyncTimes
from quiver.model.names import StartEpoch
from quiver.replication.following.following import UnitLogs
from quiver.replication.leading.leading import Leading
from quiver.replication.leading.led_log import LedLog, local_options
from quiver.replication.leading.log import ReplicatedLog
from quiver.replication.unit import start_epoch
from quiver.storage.memory.storage import check_log_id
from quiver.storage.port import Log, LogOptions, Storage

LOSS_GAP = 1 << 20
"""Offsets that are left out where some may have been given out and lost."""


class UnitStorage:
    """A `Storage` for one start of a broker. Once `deposed` is set, everything raises NotLeader; that is so after
    `close` as well."""

    def __init__(self, leading: Leading, logs: UnitLogs, local: Storage) -> None:
        self._leading, self._logs, self._local = leading, logs, local
        self._opening: dict[str, asyncio.Lock] = {}
        self._opened: dict[str, ReplicatedLog] = {}

    @property
    def deposed(self) -> asyncio.Event:
        return self._leading.deposed

    @property
    def is_taken_over(self) -> bool:
        """Another process leads, or this one has begun another epoch."""
        return self._leading.is_closed

    @property
    def sync_times(self) -> SyncTimes | None:
        return self._local.sync_times

    @property
    def problem(self) -> str | None:
        return self._local.problem

    @property
    def warnings(self) -> dict[str, str]:
        prefix = self._logs.path("")
        return {
            log_id.removeprefix(prefix): text
            for log_id, text in self._local.warnings.items()
            if log_id.startswith(prefix)
        }

    @property
    def buffer_numbers(self) -> None:
        return None

    async def next_start_epoch(self) -> StartEpoch:
        """That of the unit's epoch: every start of a broker has an epoch of the unit."""
        self._leading.check()
        return self._leading.start_epoch

    async def open_log(self, log_id: str, options: LogOptions) -> ReplicatedLog:
        """Waits until everything that this replica has of it is committed."""
        self._leading.check()
        check_log_id(log_id)
        async with self._opening.setdefault(log_id, asyncio.Lock()):
            led = self._leading.by_id.get(log_id)
            if led is None:
                led = await self._make(log_id, options)
            elif not led.is_configured:
                await self._take_up(led, options)
            self._leading.configure(led, options)
            if options.durability != "fsync" and not options.syncs_what_counts:
                await self._leading.make_volatile()
        self._opening.pop(log_id, None)
        await self._leading.committed(led, led.progress.election_end)
        opened = self._opened.get(log_id)
        if opened is None or opened.is_closed or opened.is_over:
            opened = self._opened[log_id] = ReplicatedLog(led, self._leading)
        return opened

    async def _make(self, log_id: str, options: LogOptions) -> LedLog:
        log = await self._local.open_log(self._logs.path(log_id), local_options(options))
        self._leading.check()
        return self._leading.add_log(log_id, log, options, is_new=True)

    async def _take_up(self, led: LedLog, options: LogOptions) -> None:
        """What was there at the election. Offsets may have been given out that nobody knows of any more."""
        is_volatile = options.durability != "fsync" and not options.syncs_what_counts
        if is_volatile and self._may_have_lost(led.log):
            async with led.turn:
                await led.log.skip_to(led.log.end_offset + LOSS_GAP)
            self._leading.skipped(led)

    def _may_have_lost(self, log: Log) -> bool:
        """Nothing was written since everybody may have lost something, and no leader since then has left a gap."""
        loss_epoch, last = self._leading.leader.unit.loss_epoch, log.last_frame
        if not loss_epoch or last.epoch >= start_epoch(self._leading.worker, loss_epoch):
            return False
        return log.end_offset - last.end_offset < LOSS_GAP

    async def delete_logs(self, directory: str) -> None:
        """Returns when the in-sync set has removed them."""
        self._leading.check()
        below = f"{check_log_id(directory)}/"
        gone = [led for log_id, led in self._leading.by_id.items() if log_id == directory or log_id.startswith(below)]

        async def remove() -> None:
            await self._local.delete_logs(self._logs.path(directory))

        await self._leading.remove_logs(gone, remove)
        for led in gone:
            self._opened.pop(led.log_id, None)

    async def discard_logs(self, directory: str) -> None:
        """No other process removes the files of this worker's logs."""
        await self.delete_logs(directory)

    async def list_logs(self, prefix: str = "") -> list[str]:
        self._leading.check()
        return sorted(log_id for log_id in self._leading.by_id if log_id.startswith(prefix))

    async def discard(self) -> None:
        """Nothing is written any more."""
        await self._leading.close()

    async def close(self) -> None:
        """What was accepted is committed already; the node stops leading."""
        await self._leading.close()
