"""The limits that users meet. Sizes are checked before memory is allocated."""

import msgspec

KIB = 1024
MIB = 1024 * KIB
DAY_MS = 86_400_000

NAME_LENGTH = 240
"""Characters of the name of a topic, group or consumer."""
MESSAGE_ID_BYTES = 1024
MESSAGE_IDS_REMEMBERED = 1_000_000
"""At least this many per partition, within the window of the topic; then about 100,000 of the oldest are forgotten at
once."""
SEQUENCE_LIMIT = 2**31
"""The sequence numbers of a producer's messages start again at 0 here."""
FRAMES_REMEMBERED = 16
"""How many frames of a producer a partition recognises when they are repeated; no client has more in flight."""
PRODUCERS_REMEMBERED = 10_000
"""Per partition; the one that was silent for longest is forgotten first."""
PRODUCER_REMEMBERED_MS = DAY_MS
"""How long a partition remembers a producer that sends nothing."""
PRODUCER_EPOCHS_REMEMBERED = 10_000
"""A producer whose epoch is forgotten gets a new id."""

MESSAGES_AT_ONCE = 10_000
"""Per receive, poll or page of messages, whatever a request asks for."""
PAGE_BYTES = 16 * MIB
"""A page of messages or dead letters, or the response to a poll, gets no further messages once it has this size."""
PUBLISHED_AT_ONCE = 100_000
"""Messages per publish over HTTP."""
RECEIPTS_AT_ONCE = 10_000
TOPICS_AT_ONCE = 1_000
"""Topics per receive."""
LONGEST_VISIBILITY_MS = 7 * DAY_MS
LONGEST_SETTLE_DELAY_MS = 3650 * DAY_MS
"""How far a nack may put off the next delivery, or an extend the end of the lease: ten years."""
LONGEST_WAIT_MS = 300_000
"""How long one request may wait for messages."""
CONNECTIONS = 10_000
"""Per port."""
HTTP_HEAD_BYTES = 64 * KIB
"""The request line and headers of a request."""
HTTP_DISCARDED_BYTES = 256 * MIB
"""The rest of a refused body is read and dropped up to here, so that the client gets to read its response."""
HTTP_IDLE_SECONDS = 5
"""An HTTP connection without a request is closed after this time."""
HTTP_QUERY_FIELDS = 100
TRANSACTIONS_LISTED = 1_000
LISTED_AT_ONCE = 10_000
"""Delayed messages or dead letters per page, whatever a request asks for."""
LONGEST_DELAY_MS = 10 * 366 * DAY_MS
"""How far ahead a message may be scheduled: ten years."""
MOST_SCHEDULES = 10_000
LONGEST_CRON = 200
"""Characters of a cron expression."""
SHORTEST_INTERVAL_MS = 100
LONGEST_INTERVAL_MS = 10 * 366 * DAY_MS
"""The longest `@every`: ten years."""
TRANSACTION_OPEN_MS = 15 * 60_000
"""How long a transaction may be open, unless the broker is configured otherwise."""
TRANSACTIONAL_ID_LENGTH = 240
TRANSACTION_PRODUCERS = 10_000
"""Producers whose transactions one request may commit or abort together."""
TRANSACTION_OFFSETS = 10_000
TRANSACTION_ACK_RUNS = 100_000
COMMIT_KEY_LENGTH = 1_000
COMMIT_DESCRIPTION_LENGTH = 500
COMMIT_KEYS_REMEMBERED = 100_000
COMMIT_KEYS_REMEMBERED_MS = 7 * DAY_MS
"""A commit with a key is recognised for a week, if there are not more keys than that."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    message_bytes: int = MIB
    frame_bytes: int = 16 * MIB
    request_bytes: int = 32 * MIB
    """A whole native request or HTTP body."""
    fetch_bytes: int = 64 * MIB
    """The most that one response to a fetch carries, whatever the client asks for."""
    partitions_per_topic: int = 10_000
    partition_queue_bytes: int = 64 * MIB
    """Frames that wait for one partition's writer; when there are more, producers are told to slow down."""

    def for_messages(self, message_bytes: int | None) -> "Limits":
        """With the message size of a topic, at most the frame size, which may have been lowered since."""
        if message_bytes is None:
            return self
        return msgspec.structs.replace(self, message_bytes=min(message_bytes, self.frame_bytes))
