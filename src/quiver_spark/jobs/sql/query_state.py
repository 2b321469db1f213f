"""What a streaming query keeps beside its checkpoint: an id of its own, and the fields that were inferred first.

A query that is started again must have the columns that it had. The id goes with the checkpoint: a new checkpoint is
a new query.
"""

from pathlib import Path

import msgspec
import pyarrow as pa

from quiver.model.errors import CorruptData, InvalidRequest
from quiver.system.files import Files
from quiver.system.randomness import SystemRandomness
from quiver_spark.jobs.sql.tables import Fields

_FILE = "quiver-sql.json"
_ID_BYTES = 12


class QueryState(msgspec.Struct, frozen=True):
    id: str
    fields: dict[str, str]
    """By topic, in Arrow's own form."""

    def schemas(self) -> Fields:
        return {topic: pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text))) for topic, text in self.fields.items()}


def local_checkpoint(checkpoint: str) -> Path | None:
    """Its directory, if this machine has it."""
    text = checkpoint.removeprefix("file://").removeprefix("file:")
    return None if "://" in text else Path(text)


def read_state(directory: Path) -> QueryState | None:
    """None if the query has not begun."""
    path = directory / _FILE
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=QueryState)
    except msgspec.MsgspecError as error:
        raise CorruptData(f"{path} is damaged ({error}); use another checkpoint") from None


def new_state(directory: Path, fields: Fields) -> QueryState:
    """Writes it, before the query begins."""
    if (directory / "offsets").exists():
        raise InvalidRequest(problem=f"{directory} is the checkpoint of another query: name a new directory")
    encoded = {topic: bytes(schema.serialize()).hex() for topic, schema in fields.items()}
    state = QueryState(SystemRandomness().token(_ID_BYTES).hex(), encoded)
    files = Files()
    files.make_directory(directory)
    files.write_file(directory / _FILE, msgspec.json.encode(state))
    return state
