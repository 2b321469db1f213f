# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Membership in a group: joining, heartbeats in the background, commits, releasing partitions and leaving."""

import contextlib
import logging

from quiver.client._backend_sync import Lock, Signal, Task
from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client._sync.read.fetcher import Fetcher
from quiver.client.read.partition_source import PartitionSource
from quiver.client.stream.assignment import Assignment, listed
from quiver.client.stream.options import StreamConfig
from quiver.model.errors import (
    ConnectionLost,
    GroupNotFound,
    MemberFenced,
    MemberNotFound,
    QuiverError,
)
from quiver.protocol.group_messages import (
    CommitOffsets,
    CommitPart,
    GroupHeartbeat,
    JoinGroup,
    LeaveGroup,
    MemberAssignment,
)

_logger = logging.getLogger("quiver.client")

_PUT_OUT = (MemberFenced, MemberNotFound, GroupNotFound)
_LEAVE_SECONDS = 5.0


class Membership:
    """Heartbeats are sent while handlers run, however long. The fetcher is woken when the assignment changes."""

    def __init__(
        self,
        broker: ReconnectingConnection,
        config: StreamConfig,
        assignment: Assignment,
        fetcher: Fetcher,
    ) -> None:
        self._broker = broker
        self._config = config
        self._assignment = assignment
        self._fetcher = fetcher
        self._committing = Lock()
        self._releasing = Lock()
        self._stop = Signal()
        self._heartbeat_task: Task | None = None
        self._version = -1
        self._committed_at = broker.clock.monotonic()
        self.member_id = ""
        self.generation = 0
        self.error: QuiverError | None = None
        """Why the membership has ended."""

    def join(self, timeout: float | None = None) -> None:
        config = self._config
        request = JoinGroup(
            config.group,
            config.client_id,
            config.topics,
            config.pattern,
            config.instance_id,
            config.session_ms,
            None,
            "cooperative",
            config.assignor,  # type: ignore[arg-type]
            config.start,
        )
        self._adopt((self._broker.call(request, repeatable=False, timeout=timeout)).answer)
        _logger.info("group %s: joined as %s, generation %d", config.group, self.member_id, self.generation)
        self._heartbeat_task = Task(self._send_heartbeats, "quiver-heartbeat")

    def commit(self) -> None:
        """Commits the positions of partitions. Nothing is sent if nothing has changed."""
        self._assignment.note_progress()
        self._commit(self._assignment.committable())

    def commit_offset(self, source: PartitionSource, offset: int) -> None:
        """Commits everything below an offset, which then counts as processed."""
        if self.error is not None:
            raise self.error
        if source not in self._assignment.committable():
            raise MemberFenced(f"{source.topic}-{source.partition} is no longer assigned to this member")
        source.position = max(source.position, offset)
        self._commit([source], offset)

    def release(self, sources: list[PartitionSource]) -> None:
        """Tells the broker that partitions were given up, after committing them with auto commit.

        What the broker could not be told before is tried again.
        """
        self._assignment.mark_for_release(sources)
        with self._releasing:
            keys, read = self._assignment.to_release()
            if not keys:
                return
            if read:
                _logger.info("group %s: releases %s", self._config.group, listed(read))
            if self._config.auto_commit_seconds is not None:
                with contextlib.suppress(MemberFenced):  # the response to the heartbeat says what is wrong
                    self._commit(read)
            beat = GroupHeartbeat(
                self._config.group, self.member_id, self._version, keys, 0, self._assignment.is_revoking
            )
            answer = (self._broker.call(beat)).answer
            self._assignment.released(keys)
            self._adopt(answer)

    def refresh(self) -> None:
        """Fetches what has changed in the group since the last heartbeat."""
        beat = GroupHeartbeat(self._config.group, self.member_id, self._version, [], 0, self._assignment.is_revoking)
        self._adopt((self._broker.call(beat)).answer)

    def leave(self) -> None:
        """Leaves immediately, so that others take over without waiting for the end of the session."""
        self._stop.set()
        if self.error is None and self.member_id and self._config.instance_id is None:
            with contextlib.suppress(QuiverError):  # then the broker ends the session
                self._broker.call(LeaveGroup(self._config.group, self.member_id), timeout=_LEAVE_SECONDS)
        if self._heartbeat_task is not None:
            self._heartbeat_task.cancel()
        self._assignment.lose_all()

    def _send_heartbeats(self) -> None:
        failures = 0
        while self.error is None and not self._stop.is_set:
            try:
                self._heartbeat()
                failures = 0
            except _PUT_OUT as error:
                self._lose(error)
            except QuiverError as error:
                if not error.retryable or self._broker.is_closed:
                    self._lose(error)
                else:
                    wait = 0.1 if isinstance(error, ConnectionLost) else 1.0
                    failures += 1
                    self._broker.log.retrying(f"the heartbeat in group {self._config.group}", error, failures, wait)
                    self._stop.wait(wait)

    def _heartbeat(self) -> None:
        config = self._config
        self.release(self._assignment.stop_revoked() if config.on_revoke is None else [])
        every = config.auto_commit_seconds
        now = self._broker.clock.monotonic()
        if every is not None and now - self._committed_at >= every:
            self._committed_at = now
            with contextlib.suppress(MemberFenced):  # the response to the heartbeat says what is wrong
                self.commit()
        wait_ms = config.heartbeat_ms if every is None else min(config.heartbeat_ms, max(1, int(every * 1000)))
        request = GroupHeartbeat(
            config.group, self.member_id, self._version, [], wait_ms, self._assignment.is_revoking
        )
        reply = self._broker.call(request, timeout=wait_ms / 1000 + self._broker.timeout)
        if not self._stop.is_set:
            self._adopt(reply.answer)

    def _commit(self, sources: list[PartitionSource], offset: int | None = None) -> None:
        with self._committing:
            wanted = [(source, source.position if offset is None else offset) for source in sources]
            moved = [(source, position) for source, position in wanted if position > source.committed]
            if not moved:
                return
            for source, position in moved:
                source.committed = position
            parts = [CommitPart(source.topic_id, source.partition, position) for source, position in moved]
            try:
                self._broker.call(CommitOffsets(self._config.group, self.member_id, parts))
            except BaseException:
                for source, _ in moved:
                    source.forget_commit()
                raise
            for source, position in moved:
                source.settled_at = position

    def _adopt(self, answer: object) -> None:
        if not isinstance(answer, MemberAssignment):
            raise unexpected(answer)
        self.member_id = answer.member_id
        if answer.version > self._version:
            self._version, self.generation = answer.version, answer.generation
        self._assignment.apply(answer)
        self._wake_reader()

    def _lose(self, error: QuiverError) -> None:
        if not (self._stop.is_set or self._broker.is_closed):
            _logger.warning("group %s: %s is no longer a member: %s", self._config.group, self.member_id, error)
        self.error = error
        self._wake_reader()

    def _wake_reader(self) -> None:
        """Makes the reader check its assignment after the current message."""
        self._assignment.interrupt()
        self._fetcher.wake()
