"""What the progress of a query says about its lag. Pure.

`latestOffset` in the progress is `{"orders": {"id": 7, "0": 4711, "1": 4690, "behind": 12}}`: the end of each
partition, and how many messages come after the end of the batch. Python sources have no other metrics in Spark 4.3.
"""

import json
from typing import TYPE_CHECKING, Any

from quiver_spark.source.stream_offset import StreamOffset, offset_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_BEHIND = "behind"


def reported_json(ends: StreamOffset, planned: StreamOffset) -> dict[str, Any]:
    """The ends of topics with the messages that come after what is planned."""
    shown = offset_json(ends)
    for name, end in ends.items():
        place = planned.get(name)
        known = place.next if place is not None and place.id == end.id else {}
        shown[name][_BEHIND] = sum(max(0, last - known.get(number, last)) for number, last in end.next.items())
    return shown


def lag(query: "StreamingQuery") -> dict[str, int]:
    """How many messages of each topic a query had still to read after its last batch; empty before the first."""
    progress = query.lastProgress
    found: dict[str, int] = {}
    for source in progress["sources"] if progress is not None else ():
        latest = json.loads(source["latestOffset"] or "{}")
        for topic, parts in latest.items() if isinstance(latest, dict) else ():
            if isinstance(parts, dict) and _BEHIND in parts:
                found[topic] = found.get(topic, 0) + int(parts[_BEHIND])
    return found
