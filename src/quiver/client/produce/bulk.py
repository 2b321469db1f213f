"""Many messages at once: from lists to columns, a slice at a time so that memory stays bounded."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from quiver.client.produce.options import SendOptions
from quiver.client.produce.outgoing import deliver_at_ms, expiry_ms
from quiver.client.produce.payload import all_id_bytes, all_key_bytes, all_value_bytes, header_bytes
from quiver.client.produce.rows import Rows
from quiver.model.errors import InvalidRequest
from quiver.model.times import parse_time_ms

_SLICE = 65_536


def bulk_rows(
    values: Iterable[Any],
    keys: Iterable[Any] | None,
    options: SendOptions,
    now_ms: int,
    ids: Iterable[Any] | None = None,
) -> Iterator[Rows]:
    """The messages as columns, slice by slice. Keys and ids: as many as values, or none."""
    if options.get("id") is not None:
        raise InvalidRequest(problem="several messages cannot share an id; pass ids, one per message")
    headers, due_ms = header_bytes(options.get("headers")), deliver_at_ms(options, now_ms)
    expiry = expiry_ms(options.get("ttl"), max(now_ms, due_ms or 0))
    timestamp = options.get("timestamp")
    timestamp_ms = now_ms if timestamp is None else parse_time_ms(timestamp, "timestamp")
    for what, items in (("keys", keys), ("ids", ids)):
        if isinstance(values, Sequence) and isinstance(items, Sequence) and len(values) != len(items):
            raise InvalidRequest(problem=f"there are {len(values)} values and {len(items)} {what}")
    key_slices = None if keys is None else _slices(keys)
    id_slices = None if ids is None else _slices(ids)
    for part in _slices(values):
        id_part = _beside(part, id_slices, "ids")
        rows = _rows(
            part,
            _beside(part, key_slices, "keys"),
            ids=None if id_part is None else all_id_bytes(id_part),
            timestamp_ms=timestamp_ms,
            expires_at_ms=None if expiry is None else [expiry] * len(part),
            deliver_at_ms=None if due_ms is None else [due_ms] * len(part),
        )
        yield rows if headers is None else rows.with_headers(headers)


def _beside(values: list[Any], slices: Iterator[list[Any]] | None, what: str) -> list[Any] | None:
    """The next slice, which must be as long as that of the values."""
    part = None if slices is None else next(slices, [])
    if part is not None and len(part) != len(values):
        raise InvalidRequest(problem=f"there are fewer {what} than values")
    return part


def _rows(values: list[Any], keys: list[Any] | None, **columns: Any) -> Rows:
    """Arrow itself takes bytes and text; only other objects are converted one by one."""
    try:
        return Rows.from_lists(values, keys=keys, **columns)
    except InvalidRequest:
        converted = None if keys is None else all_key_bytes(keys)
        return Rows.from_lists(all_value_bytes(values), keys=converted, **columns)


def _slices(items: Iterable[Any]) -> Iterator[list[Any]]:
    if isinstance(items, str | bytes | bytearray | memoryview):
        raise InvalidRequest(problem="send_many takes a list of values; for one value use send")
    if isinstance(items, Sequence):
        for start in range(0, len(items), _SLICE):
            part = items[start : start + _SLICE]
            yield part if type(part) is list else list(part)
        return
    iterator = iter(items)
    while part := list(islice(iterator, _SLICE)):
        yield part
