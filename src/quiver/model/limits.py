"""Limits that are checked before memory is allocated."""

import msgspec

KIB = 1024
MIB = 1024 * KIB


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
