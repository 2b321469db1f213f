# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Administration of groups: list, describe, reset, alter and delete them."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client._sync.read.offsets import next_offsets
from quiver.client.admin.settings import GroupSettings, sent_settings
from quiver.model.errors import InvalidRequest
from quiver.model.names import check_name
from quiver.model.position import parse_position
from quiver.protocol.group_messages import (
    AlterGroup,
    CommitOffsets,
    CommitPart,
    DeleteGroup,
    DescribeGroup,
    GroupDescription,
    GroupList,
    GroupReset,
    GroupSummary,
    ListGroups,
    ResetGroup,
    ResetPart,
)


class Groups:
    def __init__(self, broker: ReconnectingConnection) -> None:
        self._broker = broker

    def list(self) -> Sequence[GroupSummary]:
        """Every group with its state, members and lag."""
        answer = (self._broker.call(ListGroups())).answer
        if not isinstance(answer, GroupList):
            raise unexpected(answer)
        return answer.groups

    def describe(self, group: str) -> GroupDescription:
        """Members, and lag per partition in messages and milliseconds. Raises GroupNotFound."""
        answer = (self._broker.call(DescribeGroup(group))).answer
        if not isinstance(answer, GroupDescription):
            raise unexpected(answer)
        return answer

    def reset(
        self,
        group: str,
        topic: str,
        to: Any = None,
        *,
        shift: int | None = None,
        like: str | None = None,
        dry_run: bool = False,
    ) -> Sequence[ResetPart]:
        """Moves a group without members `to` earliest, latest, an offset or a time, or by `shift` messages, or to
        where the group `like` is."""
        if [to, shift, like].count(None) != 2:
            raise InvalidRequest(problem="a reset needs one of `to`, `shift` and `like`")
        position = None if to is None else parse_position(to, self._broker.clock.now_ms(), "to")
        answer = (self._broker.call(ResetGroup(group, topic, position, shift, dry_run, like))).answer
        if not isinstance(answer, GroupReset):
            raise unexpected(answer)
        return answer.partitions

    def commit(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Sets the next offsets of a group without members, by topic and partition; a new group is created.

        For programs that keep their position elsewhere and want their lag shown. Raises GroupNotEmpty.
        """
        found = next_offsets(self._broker, offsets)
        parts = [CommitPart(*place, offset) for place, offset in found.items()]
        if parts:
            self._broker.call(CommitOffsets(check_name(group, "group"), None, parts, creates=True))

    def alter(self, group: str, **settings: Unpack[GroupSettings]) -> None:
        """Changes settings: offsets_retention, and those of queues: max_attempts, backoff, backoff_max, visibility,
        max_unacked, starvation, count_expired. None means the topic's setting."""
        self._broker.call(AlterGroup(group, sent_settings(settings)))

    def delete(self, group: str) -> None:
        """Removes a group without members, and its offsets."""
        self._broker.call(DeleteGroup(group))
