"""The record of a run with an id: a run with the same id resumes the plan that it contains."""

import os
import re
from pathlib import Path

import msgspec

from quiver.model.errors import CorruptData, InvalidRequest
from quiver_spark.jobs.ranges import Range, Times
from quiver_spark.lake.storage.place import LakePlace, lake_place
from quiver_spark.lake.storage.store import open_store

_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


class RunRecord(msgspec.Struct):
    asked: dict[str, str]
    """What the run was asked to do."""
    ranges: list[Range]
    times: Times
    batch_rows: int
    done: int = 0
    """How many batches are known to be written. The broker recognises a repeated one by its key."""


class RunRecords:
    """One file for each run, in a directory or an object store."""

    def __init__(self, place: Path | LakePlace) -> None:
        self._place = lake_place(place)
        self._store = open_store(self._place)

    def begin(self, run_id: str, planned: RunRecord) -> RunRecord:
        """The plan of the first run with this id. Raises InvalidRequest if that had other settings."""
        name = _name(run_id)
        content = self._store.read(name)
        if content is None:
            self._store.write(name, msgspec.json.encode(planned))
            return planned
        try:
            found = msgspec.json.decode(content, type=RunRecord)
        except msgspec.MsgspecError as error:
            raise CorruptData(f"{self._place}/{name} is damaged ({error}); use another run id") from None
        if found.asked != planned.asked:
            changed = sorted(name for name in found.asked | planned.asked
                             if found.asked.get(name) != planned.asked.get(name))  # fmt: skip
            raise InvalidRequest(
                problem=f"run {run_id!r} was begun with other settings ({', '.join(changed)}):"
                " repeat it with the same, or use another run id"
            )
        return found

    def keep(self, run_id: str, record: RunRecord) -> None:
        self._store.write(_name(run_id), msgspec.json.encode(record))


def _name(run_id: str) -> str:
    if not _ID.fullmatch(run_id):
        raise InvalidRequest(problem=f"run id {run_id!r}: use 1 to 100 of the characters A-Z a-z 0-9 . _ -")
    return f"{run_id}.json"


def default_directory() -> Path:
    """Where the records of runs without a lake are kept."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "quiver" / "runs"
