"""The name and the statistics of a file of the lake. Pure.

A file holds every message of one partition that has an offset in the file's range and a timestamp of the file's date.
Its name contains the range, so that a listing of the table tells which offsets were archived.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from quiver.model.errors import CorruptData

PARTITION_COLUMNS = ("topic", "date")
"""Of a lake that was created without naming others."""
POSSIBLE_PARTITION_COLUMNS = ("topic", "date", "partition")
"""Those of which a file has one value."""
_RANGE = r"(?P<partition>\d+)-(?P<start>\d+)-(?P<stop>\d+)-(?:t(?P<topic_id>\d+)-)?(?P<attempt>\w+)"
_VALUES = {"topic": r"(?P<topic>[^/]+)", "date": r"(?P<date>\d{4}-\d{2}-\d{2})"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
DAY_US = 86_400_000_000


class LakeFile(NamedTuple):
    """One file. `start` to below `stop` is its range; offsets in it may be of another date, or of no message."""

    topic: str
    date: str
    partition: int
    start: int
    stop: int
    attempt: str
    """The attempt of the task that wrote it: two attempts never use the same name."""
    rows: int = 0
    size_bytes: int = 0
    first_offset: int = 0
    last_offset: int = 0
    min_time_us: int = 0
    max_time_us: int = 0
    """The range of the messages' timestamps."""
    min_append_us: int = 0
    max_append_us: int = 0
    """The range of their append times."""
    topic_id: int | None = None
    """Tells the topic from another one that had its name. None: written by a version that did not keep it."""
    layout: str = ",".join(PARTITION_COLUMNS)
    """The partition columns of the lake: its directories."""

    @property
    def path(self) -> str:
        """Below the root of the lake. Topic and date are in the name of the file if they are in no directory."""
        marked = self.attempt if self.topic_id is None else f"t{self.topic_id}-{self.attempt}"
        columns = self.layout.split(",")
        directories = "".join(f"{name}={getattr(self, name)}/" for name in columns)
        rest = "".join(f".{getattr(self, name)}" for name in _VALUES if name not in columns)
        return f"{directories}{self.partition:05d}-{self.start:020d}-{self.stop:020d}-{marked}{rest}.parquet"

    def partition_values(self) -> dict[str, str | None]:
        return {name: str(getattr(self, name)) for name in self.layout.split(",")}

    def stats(self) -> str:
        """Statistics for the table, so that readers can skip files without opening them."""
        low = _bounds(self.partition, self.first_offset, self.min_time_us, self.min_append_us)
        high = _bounds(self.partition, self.last_offset, self.max_time_us, self.max_append_us)
        for name in self.partition_values():
            low.pop(name, None)
            high.pop(name, None)
        none = dict.fromkeys(low, 0)
        stats = {"numRecords": self.rows, "minValues": low, "maxValues": high, "nullCount": none}
        return msgspec.json.encode(stats).decode()


def file_of(path: str, row: Mapping[str, Any] | None = None, columns: Sequence[str] = PARTITION_COLUMNS) -> LakeFile:
    """The file with a path in a lake with these partition columns, and with what the table knows about it (a row of
    Delta's flat add actions)."""
    found = _pattern(tuple(columns)).fullmatch(path)
    if found is None:
        raise CorruptData(
            f"{path} is in the lake's table and was not written by quiver; keep other files in a table of their own"
        )
    part = found.groupdict()
    file = LakeFile(
        part["topic"], part["date"], int(part["partition"]), int(part["start"]), int(part["stop"]), part["attempt"]
    )._replace(layout=",".join(columns))
    if part["topic_id"] is not None:
        file = file._replace(topic_id=int(part["topic_id"]))
    if row is None:
        return file
    return file._replace(
        rows=row["num_records"],
        size_bytes=row["size_bytes"],
        first_offset=row["min.offset"],
        last_offset=row["max.offset"],
        min_time_us=_microseconds(row["min.timestamp"]),
        max_time_us=_microseconds(row["max.timestamp"]),
        min_append_us=_microseconds(row["min.append_time"]),
        max_append_us=_microseconds(row["max.append_time"]),
    )


@lru_cache(maxsize=16)
def _pattern(columns: tuple[str, ...]) -> re.Pattern[str]:
    directories = "".join(f"{name}={_VALUES.get(name, '[^/]+')}/" for name in columns)
    rest = "".join(rf"\.{value}" for name, value in _VALUES.items() if name not in columns)
    return re.compile(rf"{directories}{_RANGE}{rest}\.parquet")


def date_of(day: int) -> str:
    """The date that is so many days after 1970-01-01."""
    return (_EPOCH_DAY + timedelta(days=day)).isoformat()


def _bounds(partition: int, offset: int, time_us: int, append_us: int) -> dict[str, int | str]:
    times = {"timestamp": _shown(time_us), "append_time": _shown(append_us)}
    return {"partition": partition, "offset": offset, **times}


def _shown(time_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
