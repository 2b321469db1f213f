"""docs/sdk.md names everything that users of the SDK can call."""

import inspect
import re
from pathlib import Path

import pytest

import quiver

PAGE = (Path(__file__).parents[3] / "docs" / "sdk.md").read_text()
BETWEEN_PARTS = {
    "BulkSendFuture": {"outcome"},
    "Job": {"enlist", "forget", "give_back"},
    "JobBatch": {"enlist"},
    "PendingFetch": {"answered"},
    "Producer": {"after_fork", "begin_transaction", "give_up", "is_closed", "push", "publish"},
    "SendFuture": {"outcome", "row"},
    "Stream": {"offsets_handed_out", "offsets_request", "refresh", "rewind"},
    "Transaction": {"give_up"},
    "Transactional": {"enter", "is_reserved", "reserve", "set_timeout"},
    "Transactions": {"abort_all"},
    "Work": {"after_fork", "check_fork", "give_back", "ready_job", "refill"},
}
"""What parts of the client call of each other; users have no use for it."""


def _classes() -> dict[str, type]:
    """What `quiver` exports, and what a client has as attributes."""
    client = quiver.connect("localhost:1", lazy=True)
    held = {type(value) for name, value in vars(client).items() if not name.startswith("_")}
    exported = {kind for name in quiver.__all__ if inspect.isclass(kind := getattr(quiver, name))}
    return {kind.__name__: kind for kind in held | exported if not kind.__name__.startswith("Async")}


def _verbs(kind: type) -> set[str]:
    inherited = set(dir(Exception)) | set(dir(tuple))
    return {name for name in dir(kind) if not name.startswith("_")} - inherited


@pytest.mark.parametrize("kind", [kind for _, kind in sorted(_classes().items())], ids=sorted(_classes()))
def test_every_verb_is_documented(kind: type) -> None:
    verbs = _verbs(kind) - BETWEEN_PARTS.get(kind.__name__, set())
    assert not [verb for verb in sorted(verbs) if not re.search(rf"\b{verb}\b", PAGE)]


def test_every_exported_name_is_documented() -> None:
    names = {name for name in quiver.__all__ if not name.startswith("Async")}
    assert not [name for name in sorted(names) if not re.search(rf"\b{name}\b", PAGE)]


@pytest.mark.parametrize("verb", ["connect", "connect_async"])
def test_every_option_of_connecting_is_documented(verb: str) -> None:
    options = inspect.signature(getattr(quiver, verb)).parameters
    assert not [name for name in options if not re.search(rf"\b{name}\b", PAGE)]


def test_exceptions_are_needed() -> None:
    classes = _classes()
    stale = [f"{name}.{verb}" for name, verbs in BETWEEN_PARTS.items() for verb in verbs - _verbs(classes[name])]
    assert not stale
