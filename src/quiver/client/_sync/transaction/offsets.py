# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""The offsets of groups that are part of a transaction. They are sent with its commit."""

from collections.abc import Mapping

from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client._sync.read.offsets import next_offsets
from quiver.client._sync.stream.stream import Stream
from quiver.client.stream.offsets import StreamOffsets
from quiver.model.names import check_name
from quiver.protocol.group_messages import CommitPart
from quiver.protocol.transaction_messages import AddOffsets, GroupOffsetCommit, ProducerKey


class TransactionOffsets:
    """The last offset that is given for a partition counts."""

    def __init__(self, broker: ReconnectingConnection) -> None:
        self._broker = broker
        self._named: dict[str, dict[tuple[int, int], int]] = {}
        self._streams: dict[Stream, StreamOffsets] = {}

    def __bool__(self) -> bool:
        return bool(self._named) or any(self._streams.values())

    def add(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Raises TopicNotFound, PartitionNotFound. Whether the group accepts the offsets is checked at the commit."""
        found = next_offsets(self._broker, offsets)
        if found:
            self._named.setdefault(check_name(group, "group"), {}).update(found)

    def add_stream(self, stream: Stream) -> None:
        self._streams[stream] = stream.offsets_handed_out()

    def requests(self) -> list[GroupOffsetCommit]:
        """The part of a commit request about them. Raises MemberFenced if partitions of a stream went to another
        member."""
        named = [
            GroupOffsetCommit(group, [CommitPart(*place, offset) for place, offset in offsets.items()])
            for group, offsets in self._named.items()
        ]
        return named + [stream.offsets_request(taken) for stream, taken in self._streams.items() if taken]

    def refresh(self) -> None:
        """Fetches the generations of the groups."""
        for stream in self._streams:
            stream.refresh()

    def hand_over(self, key: ProducerKey) -> None:
        """Sends them to the broker, for a commit by another client."""
        if groups := self.requests():
            self._broker.call(AddOffsets(key.producer_id, key.epoch, groups))

    def committed(self) -> None:
        for taken in self._streams.values():
            taken.committed()
