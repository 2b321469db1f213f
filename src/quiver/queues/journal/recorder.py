"""Writes changes to the journal in the order in which they were made, none before an earlier one."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from quiver.model.limits import MIB
from quiver.queues.journal.events import Event, WrittenAt
from quiver.storage.journal import Journal
from quiver.system.clock import Clock

_RECORD_BYTES = MIB
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Event])


def decode_record(record: bytes) -> list[Event]:
    return _decoder.decode(record)


class _Change(NamedTuple):
    events: Sequence[msgspec.Struct]
    undo: Callable[[], None] | None


class Recorder:
    """Changes gather while the journal is busy, and one write takes all of them.

    When a write fails, changes that can be undone are undone, the last first. The others stay and go with the next
    write: nothing that was made after them reaches the journal before they do. Records say when they were written.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._changes: list[_Change] = []
        self._writing: asyncio.Task[None] | None = None
        self._outcome: asyncio.Future[None] | None = None
        self._has_failed = False

    @property
    def is_stuck(self) -> bool:
        """The last write failed, and changes are still to be written."""
        return self._has_failed and bool(self._changes)

    def put(self, events: Sequence[msgspec.Struct], undo: Callable[[], None] | None = None) -> None:
        """Queues a change that was made just now. It is written by the next `flush`, whoever calls it."""
        if events:
            self._changes.append(_Change(events, undo))

    async def flush(self, *, sync: bool) -> None:
        """Returns when everything that was put so far is written or, with `sync`, on disk; raises when it is not."""
        if self._writing is not None or (self._changes and not self._write_at_once()):
            await self._write_in_turn()
        if sync:
            await self._journal.sync()

    def _write_at_once(self) -> bool:
        events = [event for change in self._changes for event in change.events]
        record = _encoder.encode([self._written_at(), *events])
        if len(record) > _RECORD_BYTES:
            return False
        changes, self._changes = self._changes, []
        try:
            if self._journal.write_at_once(record):
                self._has_failed = False
                return True
        except Exception:
            self._take_back(changes)
            raise
        self._changes = changes
        return False

    async def _write_in_turn(self) -> None:
        loop = asyncio.get_running_loop()
        if self._outcome is None:
            self._outcome = loop.create_future()
        if self._writing is None:
            self._writing = loop.create_task(self._run())
        await asyncio.shield(self._outcome)

    async def _run(self) -> None:
        try:
            while self._outcome is not None:
                outcome, self._outcome = self._outcome, None
                changes, self._changes = self._changes, []
                try:
                    for record in _records(changes, self._written_at()):
                        await self._journal.write(record, sync=False)
                except Exception as error:
                    self._take_back(changes)
                    outcome.set_exception(error)
                    outcome.exception()  # whoever waited may have gone
                else:
                    self._has_failed = False
                    outcome.set_result(None)
        finally:
            self._writing = None

    def _written_at(self) -> WrittenAt:
        return WrittenAt(self._clock.now_ms())

    def _take_back(self, changes: Sequence[_Change]) -> None:
        self._has_failed = True
        for change in reversed(changes):
            if change.undo is not None:
                change.undo()
        self._changes = [change for change in changes if change.undo is None] + self._changes


def _records(changes: Sequence[_Change], written_at: WrittenAt) -> list[bytes]:
    """Split so that each fits into the journal; an event is never split."""
    records: list[bytes] = []
    first = _encoder.encode([written_at])
    gathered: list[bytes] = []
    size = 0
    for change in changes:
        for event in change.events:
            encoded = _encoder.encode([event])
            if gathered and size + len(encoded) > _RECORD_BYTES:
                records.append(_list_of([first, *gathered]))
                gathered, size = [], 0
            gathered.append(encoded)
            size += len(encoded)
    return [*records, _list_of([first, *gathered])] if gathered else records


def _list_of(encoded: list[bytes]) -> bytes:
    """The record of events that were encoded as lists of one."""
    return _encoder.encode([msgspec.Raw(one[1:]) for one in encoded])
