"""What went into a partition and came out of it since it was opened."""


class Traffic:
    """Plain integers, raised by whoever does the work: once per frame, or per request where that is less often."""

    __slots__ = (
        "browsed_bytes",
        "browsed_messages",
        "duplicates",
        "fetched_bytes",
        "fetched_copied_bytes",
        "fetched_messages",
        "published_bytes",
        "published_frames",
        "published_messages",
        "received_bytes",
        "received_messages",
    )

    def __init__(self) -> None:
        self.published_messages = self.published_bytes = self.published_frames = 0
        """What was appended: markers of transactions are not counted. Bytes are those of stored frames."""
        self.duplicates = 0
        """Messages that were not appended because they were there already."""
        self.fetched_messages = self.fetched_bytes = 0
        """Sent to readers as they are stored. Messages are offsets that the frames cover: in a compacted topic, or
        with transactions, fewer arrive."""
        self.fetched_copied_bytes = 0
        """Of these bytes, what was not in a file."""
        self.received_messages = self.received_bytes = 0
        """Leased to consumers of queues, and to members of groups that poll."""
        self.browsed_messages = self.browsed_bytes = 0
        """Shown one by one, over HTTP."""

    @property
    def read_messages(self) -> int:
        return self.fetched_messages + self.received_messages + self.browsed_messages

    @property
    def read_bytes(self) -> int:
        return self.fetched_bytes + self.received_bytes + self.browsed_bytes
