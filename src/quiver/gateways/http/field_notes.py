"""What the OpenAPI document says about fields beyond their types. None of it is checked while a body is decoded:
handlers do that, with sentences of their own, and null means absent in every request."""

from typing import Any, get_args

from msgspec import Meta

from quiver.model.limits import NAME_LENGTH
from quiver.model.names import NAME_PATTERN
from quiver.model.priority import NAMES

NEEDED = "x-needed"
"""Marks a field without which a request is refused; the document lists it as required."""

NAME: dict[str, Any] = {"pattern": f"^{NAME_PATTERN}$", "maxLength": NAME_LENGTH}
DURATION: dict[str, Any] = {
    "pattern": r"^\s*((\d+(\.\d+)?(ms|s|m|h|d|w))+|\d+(\.\d+)?)\s*$",
    "minimum": 0,
    "examples": ["30s"],
}
"""Text or a number: keywords for the other kind do not count."""
SETTING: dict[str, Any] = {"minimum": 0, "examples": ["30s"]}
"""A duration that may also be a word, such as none."""
PRIORITY: dict[str, Any] = {"pattern": f"^({'|'.join(NAMES)}|[0-4])$", "minimum": 0, "maximum": len(NAMES) - 1}
RECEIPT: dict[str, Any] = {"examples": ["orders:0:42:1:1-100000001"]}


def one_of(kind: Any) -> dict[str, Any]:
    """The words of a Literal. A pattern, because generators of clients take no enum where null is allowed."""
    return {"pattern": f"^({'|'.join(get_args(kind))})$"}


def note(description: str | None = None, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema)


def needed(description: str | None = None, **schema: Any) -> Meta:
    return note(description, **{NEEDED: True, **schema})


def take_needed(schema: dict[str, Any]) -> bool:
    """Whether a field is marked as needed. The mark goes, and with it null and the default."""
    if not schema.pop(NEEDED, False):
        return False
    schema.pop("default", None)
    kinds = [kind for kind in schema.pop("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        schema.update(kinds[0])
    elif kinds:
        schema["anyOf"] = kinds
    return True
