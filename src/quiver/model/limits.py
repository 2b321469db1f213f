"""Limits that are checked before memory is allocated."""

import msgspec

KIB = 1024
MIB = 1024 * KIB
SEQUENCE_LIMIT = 2**31
"""The sequence numbers of a producer's messages wrap here."""
DAY_MS = 86_400_000
MAX_RECEIVE_MESSAGES = 10_000
MAX_RECEIVE_TOPICS = 1_000
MAX_WAIT_MS = 300_000
"""How long a receive waits at most."""
MAX_VISIBILITY_MS = 7 * DAY_MS
MAX_SETTLE_DELAY_MS = 3650 * DAY_MS
"""Of a nack or an extension."""
MAX_CONSUMER_LENGTH = 240
FRAMES_REMEMBERED = 16
"""How many frames of a producer a partition recognises when they are repeated; no client has more in flight."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    message_bytes: int = MIB
    frame_bytes: int = 16 * MIB
    request_bytes: int = 32 * MIB
    """A whole native request or HTTP body."""
    fetch_bytes: int = 64 * MIB
    """What one fetch answer may carry, whatever the client asks for."""
    partitions_per_topic: int = 10_000
    partition_queue_bytes: int = 64 * MIB
    """Frames that wait for one partition's writer; beyond it a producer is told to slow down."""

    def for_messages(self, message_bytes: int | None) -> "Limits":
        """With a topic's own message size, which the frame limit caps: a topic may have been made under another."""
        if message_bytes is None:
            return self
        return msgspec.structs.replace(self, message_bytes=min(message_bytes, self.frame_bytes))
