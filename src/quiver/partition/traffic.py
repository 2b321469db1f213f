"""What went into a partition and came out of it since it was opened."""

from quiver.telemetry.histogram import WAIT_SECONDS, Histogram


class Traffic:
    """Plain integers, raised by whoever does the work: once per frame, or per request where that is less often."""

    __slots__ = (
        "ack_seconds",
        "acked_by_leader_frames",
        "browsed_bytes",
        "browsed_messages",
        "compacted_messages",
        "delivery_seconds",
        "duplicates",
        "fetched_bytes",
        "fetched_copied_bytes",
        "fetched_messages",
        "published_bytes",
        "published_frames",
        "published_messages",
        "received_bytes",
        "received_messages",
        "refused",
        "retained_out_bytes",
    )

    def __init__(self) -> None:
        self.published_messages = self.published_bytes = self.published_frames = 0
        """What was appended: markers of transactions are not counted. Bytes are those of stored frames."""
        self.acked_by_leader_frames = 0
        """Their publishers did not wait for other replicas."""
        self.duplicates = 0
        """Messages that were not appended because they were there already."""
        self.refused: dict[str, int] = {}
        """Frames and single messages that were refused, by error code."""
        self.retained_out_bytes = self.compacted_messages = 0
        """Removed by retention, and by compaction."""
        self.delivery_seconds = Histogram(WAIT_SECONDS)
        """From the arrival of messages to their first delivery by a queue."""
        self.ack_seconds = Histogram(WAIT_SECONDS)
        """From the delivery of messages to their ack."""
        self.fetched_messages = self.fetched_bytes = 0
        """Sent to readers as they are stored. Messages are offsets that the frames cover: in a compacted topic, or
        with transactions, fewer arrive."""
        self.fetched_copied_bytes = 0
        """Of these bytes, what was not in a file."""
        self.received_messages = self.received_bytes = 0
        """Leased to consumers of queues, and to members of groups that poll."""
        self.browsed_messages = self.browsed_bytes = 0
        """Shown one by one, over HTTP."""

    def note_refused(self, code: str, count: int = 1) -> None:
        self.refused[code] = self.refused.get(code, 0) + count
