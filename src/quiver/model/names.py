"""Names of topics and groups, and the ids behind them."""

import re
from typing import NewType

from quiver.model.errors import InvalidName

TopicId = NewType("TopicId", int)
Offset = NewType("Offset", int)

NAME_PATTERN = "[A-Za-z0-9._-]{1,240}"
_NAME = re.compile(NAME_PATTERN)


def check_name(name: object, kind: str = "topic") -> str:
    """The name itself, or InvalidName. Files are named by id, so the name never reaches the file system."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (".", ".."):
        shown = name if isinstance(name, str) and len(name) <= 300 else str(name)[:300]
        raise InvalidName(name=shown, kind=kind)
    return name
