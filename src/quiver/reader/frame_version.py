"""Frames that a later version of Quiver has written."""

from quiver.model.errors import UnsupportedVersion
from quiver.records.header import MAGIC, VERSION

PREFIX_BYTES = len(MAGIC) + 1
"""The bytes that `check_version` needs."""


def check_version(where: str, start: bytes | memoryview) -> None:
    """Raises UnsupportedVersion if bytes that this version cannot read begin like a frame of a later version."""
    if len(start) >= PREFIX_BYTES and bytes(start[:2]) == MAGIC and start[2] > VERSION:
        raise UnsupportedVersion(
            problem=f"{where} has frames of version {start[2]} and this quivermq reads version {VERSION}"
            " (pip install --upgrade quivermq)"
        )
