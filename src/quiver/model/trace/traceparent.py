"""The header that carries a trace from one program to the next, as W3C Trace Context defines it."""

import re
from typing import NamedTuple

TRACEPARENT = "traceparent"
_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_SAMPLED = 1
LONGEST_TRACEPARENT = 512


class TraceParent(NamedTuple):
    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits: of the span that the message was sent in."""
    is_sampled: bool

    @property
    def text(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}"


def parse_traceparent(text: bytes | None) -> TraceParent | None:
    """None for what is not one: such a header is stored as any other, and means nothing."""
    if not text or len(text) > LONGEST_TRACEPARENT:
        return None
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more) or not trace.strip(b"0") or not span.strip(b"0"):
        return None
    return TraceParent(trace.decode(), span.decode(), bool(int(flags, 16) & _SAMPLED))
