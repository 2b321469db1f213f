"""One partition that is read: how far it is fetched, and how far it is processed. Pure."""

from quiver.client.read.cursor import NO_END, Cursor
from quiver.protocol.messages import FetchedPart

PartitionKey = tuple[int, int]
"""Topic id and partition."""

_UNKNOWN = -1


class PartitionSource:
    """`position` is the next offset to be processed: what a commit names. `is_gone` once it is no longer read here.

    What was fetched with an earlier cursor is ignored.
    """

    __slots__ = (
        "committed",
        "cursor",
        "is_fetching",
        "is_gone",
        "is_paused",
        "position",
        "settled_at",
        "topic",
        "topic_id",
    )

    def __init__(self, topic_id: int, topic: str, partition: int, offset: int, end: int = NO_END) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.cursor = Cursor(partition, offset, end)
        self.position = offset
        self.committed = offset
        self.settled_at = offset
        """Where to continue if nothing that was handed out since then counts."""
        self.is_fetching = False
        self.is_paused = False
        self.is_gone = False

    @property
    def partition(self) -> int:
        return self.cursor.partition

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.cursor.partition

    @property
    def is_idle(self) -> bool:
        """Whether there is something to fetch and no request for it is in flight."""
        return not (self.is_fetching or self.is_paused or self.is_gone or self.cursor.is_finished)

    def rewind(self) -> None:
        """Fetches again from the position on."""
        self.cursor = Cursor(self.partition, self.position)
        self.is_fetching = False

    def found_nothing(self, answer: FetchedPart, *, read_committed: bool = True) -> None:
        """There is nothing to read from the cursor on. Below the end that an earlier response named, it is a gap."""
        end = self.cursor.readable_end
        if self.position == self.cursor.offset < end:
            self.position = self.cursor.offset = end
        self.cursor.note_end(answer, read_committed=read_committed)
        self.cursor.found_nothing()

    def move_to(self, offset: int) -> None:
        """Continues at another offset, which is committed even if it is lower."""
        self.position = self.settled_at = offset
        self.forget_commit()
        self.rewind()

    def go_back(self) -> None:
        """Continues at the last commit or seek."""
        self.position = self.settled_at
        self.rewind()

    def forget_commit(self) -> None:
        """The committed position is unknown."""
        self.committed = _UNKNOWN
