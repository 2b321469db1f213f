"""Which messages are part of a trace that is recorded: their header `traceparent` says so (W3C Trace Context)."""

import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.trace.traceparent import TRACEPARENT, parse_traceparent


def has_sampled(headers: pa.MapArray) -> bool:
    """Whether a message with these headers is sampled. Costs nothing to speak of where there is no such header."""
    first, end = headers.offsets[0].as_py(), headers.offsets[-1].as_py()
    names = headers.keys.slice(first, end - first)
    places = pc.indices_nonzero(pc.equal(names, TRACEPARENT))
    if not len(places):
        return False
    values = headers.items.slice(first, end - first)
    return any(
        (found := parse_traceparent(values[place.as_py()].as_py())) is not None and found.is_sampled
        for place in places
    )
