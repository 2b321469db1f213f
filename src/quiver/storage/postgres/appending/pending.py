"""An append that waits for its commit, and the statement for several of them."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from quiver.records.header import CONTROL, TRANSACTIONAL
from quiver.storage.postgres.appending.state import PlannedAppend, PostgresLogState, encoded_epochs

logger = logging.getLogger(__name__)

OnStored = Callable[[PlannedAppend | None, Exception | None], None]
"""Gets the append as it was stored (it may have grown by frames that the database had lost), or the error."""


class PendingAppend:
    __slots__ = ("_is_publish", "_on_stored", "append", "state")

    def __init__(
        self, state: PostgresLogState, append: PlannedAppend, on_stored: OnStored, *, is_publish: bool = False
    ) -> None:
        self.state = state
        self.append = append
        self._on_stored = on_stored
        self._is_publish = is_publish

    @property
    def may_be_buffered(self) -> bool:
        """Whether it may wait in the local buffer: messages of a topic that are in no transaction."""
        apart = TRANSACTIONAL | CONTROL
        return self._is_publish and not any(frame.header.attributes & apart for frame in self.append.frames)

    def end(self, append: PlannedAppend | None, error: Exception | None) -> None:
        """Whatever the caller does with it, the others of the same commit get theirs."""
        try:
            self._on_stored(append, error)
        except Exception:
            logger.exception("%s: an append was not ended as it should", self.state.log_id)


def append_query(bundle: Sequence[PendingAppend]) -> tuple[str, list[object]]:
    """The name of the statement, and its values."""
    logs: list[tuple[object, ...]] = []
    frames: list[tuple[object, ...]] = []
    has_changes = False
    for pending in bundle:
        append, id = pending.append, pending.state.id
        plan = append.plan
        logs.append((id, pending.state.owner_epoch, append.old_end, plan.end_offset, plan.append_time_ms))
        for stored, (header, _, _) in zip(append.stored, append.frames, strict=True):
            offset, count = header.base_offset, header.message_count
            end = offset + header.last_offset_delta + 1
            frames.append((id, offset, end, header.append_time_ms, count, header.priority, stored))
        has_changes = has_changes or append.has_changes
    values = [*_columns(logs, 5), *_columns(frames, 7), "on" if bundle[0].append.sync else "off"]
    return ("append_with_changes", values + _changes(bundle)) if has_changes else ("append", values)


def _changes(bundle: Sequence[PendingAppend]) -> list[object]:
    logs: list[tuple[object, ...]] = []
    segments: list[tuple[object, ...]] = []
    for pending in bundle:
        state, append = pending.state, pending.append
        epochs = None if append.epochs is append.base.epochs else encoded_epochs(append.epochs)
        logs.append((append.plan.epoch, epochs, append.active_offset, append.reserved_offset))
        for closed in append.closed:
            *numbers, counts = closed.row()
            segments.append((state.id, *numbers, f"{{{','.join(map(str, counts))}}}"))
    return [*_columns(logs, 4), *_columns(segments, 6)]


def _columns(rows: Sequence[tuple[object, ...]], count: int) -> list[object]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]


def resolve_append(future: "asyncio.Future[None]", error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
