"""Log lines about messages that were nacked or rejected."""

import logging

from quiver.client.work.settlement import Part
from quiver.model.settlement import NACK, REJECT
from quiver.model.times import format_time
from quiver.protocol.queue_messages import SettledPart

logger = logging.getLogger("quiver.client")


def log_settled(part: Part, answer: SettledPart) -> None:
    """A line per run of messages. Messages that were given back without being processed get none."""
    decision = part.decision
    if decision.action not in (NACK, REJECT) or not decision.is_counted or not logger.isEnabledFor(logging.INFO):
        return
    for run, start, end, _ in part.spans:
        offsets = f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}"
        where = f"{run.topic}-{run.partition} {offsets}"
        reason = f": {decision.reason}" if decision.reason else ""
        if decision.action == REJECT:
            logger.info("%s: rejected%s", where, reason)
        elif answer.until_ms is None:
            logger.info("%s: attempt %d failed, it was the last%s", where, run.attempt, reason)
        else:
            next_at = format_time(answer.until_ms)
            logger.info("%s: attempt %d failed, the next is at %s%s", where, run.attempt, next_at, reason)
