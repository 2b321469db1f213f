# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Reading as a member of a group."""

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import TypeVar
from weakref import ref

import pyarrow as pa

from quiver.client._backend_sync import finished, flatten
from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client._sync.read.fetcher import Fetcher
from quiver.client._sync.stream.membership import Membership
from quiver.client.message import Message, messages_of
from quiver.client.raise_once import RaiseOnce
from quiver.client.read.arrow_batch import arrow_batch
from quiver.client.read.cursor import ReadFrame, StoredFrame
from quiver.client.read.options import FetcherConfig
from quiver.client.read.partition_source import PartitionSource
from quiver.client.stream.assignment import Assignment, listed, named
from quiver.client.stream.current_batch import CurrentBatch
from quiver.client.stream.offsets import StreamOffsets
from quiver.client.stream.options import OnPartitions, StreamConfig
from quiver.client.wait_limit import WaitLimit
from quiver.model.errors import Closed, InvalidRequest, MessageTimeout, QuiverError
from quiver.protocol.transaction_messages import GroupOffsetCommit

_T = TypeVar("_T")
_Found = tuple[PartitionSource, StoredFrame, ReadFrame]
_logger = logging.getLogger("quiver.client")


class Stream:
    """Messages of a group's topics: iterate it for messages, or over `batches()`.

    It joins the group when it is opened: by `open`, a `with` block, or asking for the first message. A message counts
    as processed when the next one is asked for, or when the stream is closed without an error.
    """

    def __init__(
        self, broker: ReconnectingConnection, fetch_broker: ReconnectingConnection, config: StreamConfig
    ) -> None:
        self._broker = broker
        self._config = config
        self._fetcher = Fetcher(
            fetch_broker,
            FetcherConfig(
                config.max_bytes,
                config.max_wait_ms,
                skips_missing=True,
                read_committed=config.read_committed,
                nearest=config.nearest,
            ),
        )
        self.expired_count = 0
        """Messages that were left out because they were expired; they count as processed."""
        self._wait_limit = WaitLimit(broker.clock, fetch_broker.log, config.timeout_seconds)
        self._assignment = Assignment()
        self._membership = Membership(broker, config, self._assignment, self._fetcher)
        self._is_open = False
        self.is_closed = False
        self._reading: Iterator[_Found | MessageTimeout] = self._read()
        self._messages: Iterator[Message] = flatten(self._message_groups())
        self._batches: Iterator[pa.RecordBatch] = flatten(self._batch_groups())
        self._choice: object = None

    # the group

    def open(self) -> "Stream":
        if self.is_closed:
            raise Closed(what="the stream")
        if not self._is_open:
            self._wait_limit.restart()
            self._membership.join(self._wait_limit.left)
            self._is_open = True
        return self

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    @property
    def generation(self) -> int:
        return self._membership.generation

    @property
    def assignment(self) -> list[tuple[str, int]]:
        """Topics and partitions that this member reads now."""
        return named(self._assignment.reading())

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """By topic and partition, the next offset to be processed."""
        return {(source.topic, source.partition): source.position for source in self._assignment.reading()}

    @property
    def lost_count(self) -> int:
        """Messages that retention removed before they were read."""
        return self._fetcher.lost_count

    def commit(self) -> None:
        """Commits everything that was handed out so far, including the current message."""
        self._check_membership()
        self._assignment.note_progress(done=True)
        self._membership.commit()

    def offsets_handed_out(self) -> StreamOffsets:
        """For a transaction: everything that was handed out so far, including the current message."""
        if self._config.auto_commit_seconds is not None:
            problem = "offsets of a stream can only be part of a transaction with auto_commit=False"
            raise InvalidRequest(problem=f"{problem}: automatic commits do not wait for the transaction")
        self._check_membership()
        self._assignment.note_progress(done=True)
        return StreamOffsets(self._config.group, self._assignment.committable())

    def offsets_request(self, offsets: StreamOffsets) -> GroupOffsetCommit:
        """The part of a commit request about them. Raises MemberFenced if they are no longer this member's."""
        self._check_membership()
        return offsets.request(self.member_id, self.generation, self._assignment.committable())

    def refresh(self) -> None:
        """Fetches the current state of the group."""
        self._membership.refresh()

    def rewind(self) -> None:
        """Goes back to the committed position, from the next message on: after a transaction was aborted."""
        self._check_membership()
        self._assignment.rewind()
        self._fetcher.wake()

    def pause(self, topic: str, partition: int) -> None:
        """Pauses a partition from the next message on; it stays assigned to this member."""
        self._assignment.pause(self._source(topic, partition))

    def resume(self, topic: str, partition: int) -> None:
        self._source(topic, partition).is_paused = False
        self._fetcher.wake()

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continues in a partition at another offset, from the next message on. The next commit commits it."""
        if offset < 0:
            raise InvalidRequest(problem=f"offset {offset} must be 0 or more")
        self._assignment.seek(self._source(topic, partition), offset)
        self._fetcher.wake()

    def close(self, *, done: bool = True) -> None:
        """Gives up all partitions, commits and leaves. With `done` the current message counts as processed.

        Does nothing in a forked child: the membership is the parent's.
        """
        if self.is_closed or self._broker.is_forked:
            self.is_closed = True
            return
        self.is_closed = True
        self._assignment.finish(done=done)
        self._fetcher.wake()
        if not self._is_open:
            return
        try:
            if self._membership.error is None:
                self._tell(self._config.on_revoke, self._assignment.reading())
            if self._config.auto_commit_seconds is not None and self._membership.error is None:
                self._membership.commit()
        finally:
            self._membership.leave()

    def __enter__(self) -> "Stream":
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(done=error is None)

    # the messages

    def __iter__(self) -> Iterator[Message]:
        return self._chosen(self._messages)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow batches; a batch counts as processed when the next one is asked for."""
        return self._chosen(self._batches)

    def _batch_groups(self) -> Iterator[Iterable[pa.RecordBatch]]:
        for found in self._reading:
            if isinstance(found, MessageTimeout):
                yield RaiseOnce(found)
                continue
            source, stored, read = found
            if self._assignment.begin(CurrentBatch(source, stored.cursor, [], stored.end)):
                self.expired_count += read.expired_count
                yield [arrow_batch(read)]
                self._broker.check_fork()
                self._assignment.finish()
                self._keep_up()

    def _message_groups(self) -> Iterator[Iterable[Message]]:
        for found in self._reading:
            if isinstance(found, MessageTimeout):
                yield RaiseOnce(found)
                continue
            source, stored, read = found
            messages, expired = list(messages_of(read, source.topic)), read.expired_count
            if messages:
                # Messages are not tracked by the garbage collector, so they must not refer back to what holds them.
                messages[0].source.commit = partial(_commit_message, ref(self._membership), source)
            current: CurrentBatch | None = CurrentBatch(source, stored.cursor, messages, stored.end)
            while current is not None and not self.is_closed and self._assignment.begin(current):
                self.expired_count, expired = self.expired_count + expired, 0
                yield current.left
                self._broker.check_fork()
                current = self._assignment.finish()
                self._keep_up()

    def _read(self) -> Iterator[_Found | MessageTimeout]:
        self.open()
        limit = self._wait_limit
        while not self.is_closed:
            self._keep_up()
            has_waited = True
            for source, stored in self._fetcher.next_frames(limit.left):
                if self.is_closed:
                    return
                if stored.is_hidden:
                    self._assignment.skip_to(source, stored.cursor, stored.end)
                elif not source.is_gone and stored.cursor is source.cursor:
                    read = stored.open(source.topic, self._config.limits, self._broker.clock.monotonic())
                    if read.is_empty:
                        self.expired_count += read.expired_count
                        self._assignment.skip_to(source, stored.cursor, stored.end)
                        continue
                    yield source, stored, read
                    limit.restart()
                    has_waited = False
            if has_waited and limit.is_over:
                yield limit.error()
                limit.restart()

    def _keep_up(self) -> None:
        """Between two messages: reads added partitions, releases revoked ones, raises when membership is lost."""
        error = self._membership.error
        if error is not None and not self.is_closed:
            self._tell(self._config.on_lost, self._assignment.lose_all())
            raise error
        added = self._assignment.take_added()
        if added:
            _logger.info("group %s: reads %s", self._config.group, listed(added))
            self._tell(self._config.on_assign, added)
            self._fetcher.add(added)
        lost = self._assignment.take_lost()
        if lost:
            _logger.warning("group %s: lost %s", self._config.group, listed(lost))
        self._tell(self._config.on_lost, lost)
        if self._assignment.is_revoking:
            leaving = self._assignment.stop_revoked()
            self._tell(self._config.on_revoke, leaving)
            if leaving:
                self._release(leaving)

    def _release(self, leaving: list[PartitionSource]) -> None:
        try:
            self._membership.release(leaving)
        except QuiverError as error:
            # What can be retried is, with the next heartbeat. Who has left meanwhile has released everything.
            if not (error.retryable or self.is_closed):
                raise

    def _chosen(self, reading: Iterator[_T]) -> Iterator[_T]:
        """A stream has one reader, for messages or for batches: each would skip what the other is processing."""
        self._check_membership()
        if self._choice not in (None, reading):
            raise InvalidRequest(problem="a stream is read either as messages or as batches")
        self._choice = reading
        return reading

    def _check_membership(self) -> None:
        self._broker.check_fork()
        if self._membership.error is not None and not self.is_closed:
            raise self._membership.error

    def _tell(self, callback: OnPartitions | None, sources: list[PartitionSource]) -> None:
        if callback is not None and sources:
            finished(callback(named(sources)))

    def _source(self, topic: str, partition: int) -> PartitionSource:
        self._broker.check_fork()
        source = self._assignment.find(topic, partition)
        if source is None:
            raise InvalidRequest(problem=f"{topic}-{partition} is not assigned to this member now")
        return source


def _commit_message(membership: "ref[Membership]", source: PartitionSource, message: Message) -> None:
    found = membership()
    if found is None:
        raise Closed(what="the stream")
    found.commit_offset(source, message.offset + 1)
