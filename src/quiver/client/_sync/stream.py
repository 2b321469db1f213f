# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Reading as a member of a group."""

import operator
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType

import pyarrow as pa

from quiver.client._backend_sync import finished, flatten
from quiver.client._sync.fetcher import Fetcher
from quiver.client._sync.link import Link
from quiver.client._sync.membership import Membership
from quiver.client.arrow_batch import arrow_batch
from quiver.client.cursor import ReadFrame
from quiver.client.holdings import Holdings, named
from quiver.client.message import Message, messages_of
from quiver.client.pace import Pace
from quiver.client.partition_source import PartitionSource
from quiver.client.stream_options import OnPartitions, StreamOptions
from quiver.model.errors import Closed, InvalidRequest, QuiverError


class Stream:
    """Messages of a group's topics: iterate it for messages, or over `batches()`.

    It joins the group when it is opened: by `open`, a `with` block, or the first message asked for. A message counts
    as processed when the next one is asked for, or when the stream is closed without an error.
    """

    def __init__(self, link: Link, fetch_link: Link, options: StreamOptions) -> None:
        self._options = options
        self._clock = link.clock
        self._fetcher = Fetcher(fetch_link, max_bytes=options.max_bytes, max_wait_ms=options.max_wait_ms)
        self._holdings = Holdings()
        self._membership = Membership(link, options, self._holdings, self._fetcher.wake)
        self._pace = Pace()
        self._chunk: Sequence[Message] = ()
        self._chunk_left: Iterator[Message] = iter(())
        self._chunk_source: PartitionSource | None = None
        self._batch_end = 0
        self._is_open = False
        self.is_closed = False
        self._reading: Iterator[tuple[PartitionSource, ReadFrame]] = self._read()
        self._messages: Iterator[Message] = flatten(self._message_groups())

    # the group

    def open(self) -> "Stream":
        if self.is_closed:
            raise Closed(what="the stream")
        if not self._is_open:
            self._membership.join()
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
        return named(self._holdings.current())

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """By topic and partition, the next offset to be processed."""
        return {(source.topic, source.partition): source.position for source in self._holdings.current()}

    @property
    def lost_count(self) -> int:
        """Messages that retention removed before they were read."""
        return self._fetcher.lost_count

    def commit(self) -> None:
        """Commits everything that was handed out so far, the message at hand included."""
        self._note_progress(done=True)
        self._membership.commit()

    def pause(self, topic: str, partition: int) -> None:
        """Holds a partition back; it stays with this member."""
        self._source(topic, partition).is_paused = True

    def resume(self, topic: str, partition: int) -> None:
        self._source(topic, partition).is_paused = False
        self._fetcher.wake()

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Goes on in a partition at another offset, from the next message on."""
        self._holdings.replace(self._source(topic, partition).moved_to(offset))
        self._fetcher.wake()

    def close(self, *, done: bool = True) -> None:
        """Commits and leaves the group. With `done` the message at hand counts as processed."""
        if self.is_closed:
            return
        self.is_closed = True
        self._note_progress(done=done)
        self._holdings.put_down()
        self._fetcher.wake()
        if not self._is_open:
            return
        try:
            if self._options.auto_commit_seconds is not None and self._membership.error is None:
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
        return self._messages

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow batches; a batch counts as processed when the next one is asked for."""
        for source, read in self._reading:
            if self._holdings.pick_up(source):
                self._hand_over(source, (), read.frame.header.next_offset)
                yield arrow_batch(read)
                self._finish(source, read.frame.header.next_offset)
                self._keep_up()

    def _message_groups(self) -> Iterator[Iterable[Message]]:
        for source, read in self._reading:
            messages = list(messages_of(read.frame, source.topic, read.partition, read.start, read.stop))
            if messages:
                messages[0].source.commit = self._commit_message
            first = 0
            while first < len(messages) and not self.is_closed and self._holdings.pick_up(source):
                chunk = messages[first : first + self._pace.count]
                first += len(chunk)
                self._hand_over(source, chunk)
                began = self._clock.monotonic()
                yield self._chunk_left
                self._pace.took(self._clock.monotonic() - began)
                last = first >= len(messages)
                self._finish(source, read.frame.header.next_offset if last else chunk[-1].offset + 1)
                self._keep_up()

    def _read(self) -> Iterator[tuple[PartitionSource, ReadFrame]]:
        self.open()
        while not self.is_closed:
            self._keep_up()
            for source, stored in self._fetcher.next_frames():
                if self.is_closed:
                    return
                if source.is_paused and not source.is_gone:
                    source.cursor.offset = source.position
                elif not source.is_gone and stored.start >= source.position:
                    yield source, stored.open(source.topic, self._options.limits)

    def _keep_up(self) -> None:
        """Between two messages: begins with new partitions, lets go of others, and says when membership is lost."""
        error = self._membership.error
        if error is not None and not self.is_closed:
            self._tell(self._options.on_lost, self._holdings.lose_all())
            raise error
        arrived = self._holdings.take_arrived()
        if arrived:
            self._tell(self._options.on_assign, arrived)
            self._fetcher.add(arrived)
        if self._holdings.is_busy:
            leaving = self._holdings.let_go()
            self._tell(self._options.on_revoke, leaving)
            self._release(leaving)

    def _release(self, leaving: list[PartitionSource]) -> None:
        try:
            self._membership.release(leaving)
        except QuiverError as error:
            if not error.retryable:
                raise

    def _hand_over(self, source: PartitionSource, chunk: Sequence[Message], batch_end: int = 0) -> None:
        self._chunk_source, self._chunk, self._chunk_left, self._batch_end = source, chunk, iter(chunk), batch_end

    def _finish(self, source: PartitionSource, position: int) -> None:
        if source is self._chunk_source:
            source.position = position
            self._chunk_source = None
        self._holdings.put_down()

    def _note_progress(self, *, done: bool) -> None:
        """Counts what was asked for of the chunk or batch at hand; the last message, or the batch, only if `done`."""
        source, chunk = self._chunk_source, self._chunk
        if source is None:
            return
        asked = len(chunk) - operator.length_hint(self._chunk_left)
        if asked:
            source.position = chunk[asked - 1].offset + (1 if done else 0)
        elif done and not chunk:
            source.position = self._batch_end

    def _commit_message(self, message: Message) -> None:
        source = self._source(message.topic, message.partition)
        self._membership.commit_offset(source, message.offset + 1)

    def _tell(self, callback: OnPartitions | None, sources: list[PartitionSource]) -> None:
        if callback is not None and sources:
            finished(callback(named(sources)))

    def _source(self, topic: str, partition: int) -> PartitionSource:
        source = self._holdings.find(topic, partition)
        if source is None:
            raise InvalidRequest(problem=f"{topic}-{partition} is not assigned to this member now")
        return source
