"""Fetch: the response, and the slices of stored files that follow it."""

from quiver.gateways.native.settings import NativeSettings
from quiver.messages.fetch import FetchedSlice, FetchOptions, FetchPart
from quiver.protocol.failure import failure_of
from quiver.protocol.messages import Fetch, Fetched, FetchedPart
from quiver.routing.facade import Facade
from quiver.storage.port import FrameSlice


async def fetch_slices(
    broker: Facade, request: Fetch, settings: NativeSettings
) -> tuple[Fetched, tuple[FrameSlice, ...]]:
    """The response and its payload. The caller owns the slices and must release each."""
    fetched = await broker.fetch(
        [FetchPart(part.topic_id, part.partition, part.offset, part.max_bytes) for part in request.parts],
        FetchOptions(
            max_wait_ms=max(0, min(request.max_wait_ms, settings.max_wait_ms)),
            min_bytes=request.min_bytes,
            max_bytes=max(0, min(request.max_bytes, broker.limits.fetch_bytes)),
            read_committed=request.read_committed,
            headers_only=request.headers_only,
            nearest=request.nearest,
        ),
    )
    slices = tuple(part.slice for part in fetched if part.slice is not None)
    return Fetched([_part(part, request.headers_only) for part in fetched], broker.clock.now_ms()), slices


def _part(fetched: FetchedSlice, headers_only: bool) -> FetchedPart:
    return FetchedPart(
        fetched.part.topic_id,
        fetched.part.partition,
        0 if fetched.slice is None else fetched.slice.length,
        fetched.log_start,
        fetched.high_watermark,
        fetched.last_stable,
        fetched.epoch,
        list(fetched.aborted),
        None if fetched.error is None else failure_of(fetched.error),
        fetched.ttl_ms,
        fetched.removed_count,
        headers_only,
    )
