"""Patterns of names: regular expressions that match in linear time.

Arrow's engine is RE2, whose time is linear for every expression: a pattern comes from a client and is matched on the
event loop. RE2 has no look-around and no back references.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.errors import InvalidRequest

MAX_PATTERN_LENGTH = 1000


def check_pattern(pattern: str) -> None:
    """Raises InvalidRequest if it is not a valid pattern."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise InvalidRequest(problem=f"the pattern is too long: at most {MAX_PATTERN_LENGTH} characters")
    try:
        matching(pattern, [""])
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise InvalidRequest(problem=f"the pattern is not a regular expression: {error}") from None


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern matches as a whole."""
    column = _column([name.encode() for name in names])
    return column.filter(pc.match_substring_regex(column, f"^(?:{pattern})$")).to_pylist()  # type: ignore[no-any-return]


def _column(names: list[bytes]) -> pa.Array:
    """Without `pa.array`, which imports pandas wherever it is installed."""
    ends = np.cumsum([0, *map(len, names)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(names), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(names))])
