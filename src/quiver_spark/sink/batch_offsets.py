"""What a micro-batch of a query is made of: how many rows, and up to which offsets of its sources.

The offsets are in the checkpoint, which Spark writes before the batch runs. A batch that is replayed has the same
ones. After an older checkpoint was put back, the same number stands for others.
"""

import hashlib
from pathlib import Path

_OFFSETS = "offsets"
_VERSION_AND_SETTINGS = 2
"""Lines of the file in front of the offsets, one source each. The settings name a time, which may change."""
_SHORT = 300
_DIGITS = 16


def describe(rows: int, offsets: str | None = None) -> str:
    """In a few words, the same for the same batch."""
    counted = f"{rows} row" if rows == 1 else f"{rows} rows"
    if offsets is None:
        return counted
    if len(offsets) > _SHORT:
        offsets = f"sha256 {hashlib.sha256(offsets.encode()).hexdigest()[:_DIGITS]}"
    return f"{counted} up to {offsets}"


def source_offsets(checkpoint: str | None, batch: int) -> str | None:
    """Up to where a micro-batch reads its sources; None when the checkpoint is nowhere that this process can read.

    Other errors of the disk are raised: a replay of the batch must get the same answer.
    """
    if checkpoint is None:
        return None
    text = checkpoint.removeprefix("file://").removeprefix("file:")
    if ":" in text.partition("/")[0]:
        return None
    try:
        lines = (Path(text) / _OFFSETS / str(batch)).read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError, PermissionError, UnicodeDecodeError):
        return None
    return " ".join(lines[_VERSION_AND_SETTINGS:]) or None
