"""Writes changes to the journal in the order in which they were made, none before an earlier one."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
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
    number: int
    """How many were put up to this one."""
    events: Sequence[msgspec.Struct]
    undo: Callable[[], None] | None


class _Record(NamedTuple):
    data: bytes
    written_to: int
    """The number of the last change that is written with it."""
    rest: tuple[_Change, ...] = ()
    """What of a change with too many events for one record is left to the following ones."""


class _Outcome(NamedTuple):
    written_to: int
    error: Exception | None


class Recorder:
    """Changes gather while the journal is busy, and one write takes all of them.

    When a write fails, changes that can be undone are undone, the last first. The others stay and go with the next
    write: nothing that was made after them reaches the journal before they do. Records say when they were written.
    More than a record takes is written in several: a failure concerns only what is not in those before it, and a
    change of which one has a part is not undone: its rest stays.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._changes: list[_Change] = []
        self._put = 0
        """How many changes were put."""
        self._written_to = 0
        """The number of the last change that is written. Those before it are written, or were undone."""
        self._writing: asyncio.Task[None] | None = None
        self._outcome: asyncio.Future[_Outcome] | None = None
        self._has_failed = False

    @property
    def is_stuck(self) -> bool:
        """The last write failed, and changes are still to be written."""
        return self._has_failed and bool(self._changes)

    def put(self, events: Sequence[msgspec.Struct], undo: Callable[[], None] | None = None) -> None:
        """Queues a change that was made just now. It is written by the next `flush`, whoever calls it."""
        if events:
            self._put += 1
            self._changes.append(_Change(self._put, events, undo))

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
                self._written_to = changes[-1].number
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
        put = self._put
        outcome = await asyncio.shield(self._outcome)
        if outcome.error is not None and outcome.written_to < put:
            raise outcome.error

    async def _run(self) -> None:
        try:
            while self._outcome is not None:
                outcome, self._outcome = self._outcome, None
                changes, self._changes = self._changes, []
                rest: tuple[_Change, ...] = ()
                try:
                    for record in _records(changes, self._written_at()):
                        await self._journal.write(record.data, sync=False)
                        self._written_to, rest = record.written_to, record.rest
                except Exception as error:
                    begun = rest[0].number if rest else self._written_to
                    self._take_back([*rest, *(change for change in changes if change.number > begun)])
                    outcome.set_result(_Outcome(self._written_to, error))
                else:
                    self._has_failed = False
                    outcome.set_result(_Outcome(self._written_to, None))
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


def _records(changes: Sequence[_Change], written_at: WrittenAt) -> Iterator[_Record]:
    """As many changes in each as fit; one that does not fit into a record by itself is split between its events."""
    first = _encoder.encode([written_at])
    gathered: list[bytes] = []
    size, written_to = 0, changes[0].number - 1 if changes else 0
    for change in changes:
        encoded = [_encoder.encode([event]) for event in change.events]
        whole = sum(map(len, encoded))
        if gathered and size + whole > _RECORD_BYTES:
            yield _Record(_list_of([first, *gathered]), written_to)
            gathered, size = [], 0
        for number, event in enumerate(encoded):
            if gathered and size + len(event) > _RECORD_BYTES:
                rest = _Change(change.number, change.events[number:], None)
                yield _Record(_list_of([first, *gathered]), written_to, (rest,))
                gathered, size = [], 0
            gathered.append(event)
            size += len(event)
        written_to = change.number
    if gathered:
        yield _Record(_list_of([first, *gathered]), written_to)


def _list_of(encoded: list[bytes]) -> bytes:
    """The record of events that were encoded as lists of one."""
    return _encoder.encode([msgspec.Raw(one[1:]) for one in encoded])
