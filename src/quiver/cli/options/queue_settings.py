"""The settings of queue groups as options: a topic has them as defaults, a group for itself."""

QUEUE_HELP = {
    "max_attempts": "Deliveries to a queue group before a message is a dead letter.",
    "backoff": "The pause before a first retry, such as 1s; it doubles with each.",
    "backoff_max": "The longest pause before a retry.",
    "visibility": "How long a received message is leased, such as 30s.",
    "max_unacked": "Messages that one consumer may hold at a time.",
    "starvation": "A priority that was not served for this long comes next.",
    "count_expired": "Whether a delivery counts whose lease expired (groups ordered by key): true or false.",
}
