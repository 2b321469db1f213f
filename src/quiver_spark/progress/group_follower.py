"""A group of the broker that shows where a stream is: its lag is in `quiver group describe` and in the console.

Spark's checkpoint decides what a query reads; the group only follows, and a query never reads it.
"""

import logging
from collections.abc import Mapping

from quiver.model.errors import QuiverError
from quiver_spark.broker_client import broker_client
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.stream_offset import StreamOffset

_logger = logging.getLogger("quiver_spark")


def group_follower(options: ReadOptions) -> "GroupFollower | None":
    """None if no group is to follow."""
    if options.follow_group is None:
        return None
    return GroupFollower(options.follow_group, options.bootstrap, options.timeout_seconds)


class GroupFollower:
    """Holds no connection, because Spark sends the reader that holds it to the workers."""

    def __init__(self, group: str, bootstrap: str, timeout_seconds: float) -> None:
        self._group = group
        self._bootstrap = bootstrap
        self._timeout_seconds = timeout_seconds
        self._committed: dict[str, dict[int, int]] = {}
        self._problem = ""

    def follow(self, offset: StreamOffset, topic_ids: Mapping[str, int]) -> None:
        """Commits the position of a query where it has changed. A problem is logged; it does not end the query.

        Topics that were created again since are left out: their offsets mean something else.
        """
        there = {name: dict(place.next) for name, place in offset.items() if topic_ids.get(name) == place.id}
        changed = {name: parts for name, parts in there.items() if self._committed.get(name) != parts}
        if not changed:
            return
        try:
            broker_client(self._bootstrap, self._timeout_seconds).groups.commit(self._group, changed)
        except QuiverError as error:
            if error.message != self._problem:
                _logger.warning("group %r does not follow this query: %s", self._group, error.message)
            self._problem = error.message
            return
        self._committed.update(changed)
        self._problem = ""
