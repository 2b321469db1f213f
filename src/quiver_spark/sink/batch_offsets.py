"""Describes a micro-batch: how many rows it has, and up to which offsets of its sources it reads.

The offsets are in the checkpoint, which Spark writes before the batch runs. A batch that is replayed has the same
ones. After an older checkpoint was restored, the same batch number stands for other offsets.
"""

import hashlib
from pathlib import Path

_OFFSETS = "offsets"
_VERSION_AND_SETTINGS = 2
"""Lines before the offsets, of which there is one per source. The settings contain a time, which may change."""
_SHORT = 300
_DIGITS = 16


def describe(rows: int, offsets: str | None = None) -> str:
    """A short description that is the same whenever the batch is the same."""
    counted = f"{rows} row" if rows == 1 else f"{rows} rows"
    if offsets is None:
        return counted
    if len(offsets) > _SHORT:
        offsets = f"sha256 {hashlib.sha256(offsets.encode()).hexdigest()[:_DIGITS]}"
    return f"{counted} up to {offsets}"


def source_offsets(checkpoint: str | None, batch: int) -> str | None:
    """Up to where a micro-batch reads its sources; None when this process cannot read the checkpoint.

    Other disk errors are raised: a replay of the batch must get the same result.
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
