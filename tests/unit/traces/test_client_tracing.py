"""How the SDK puts messages into traces."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from quiver.client.produce.tracing import new_tracing
from quiver.model.errors import InvalidRequest
from quiver.system.randomness import SeededRandomness, seeded

RANDOMNESS = SeededRandomness(seeded("tracing"))


def header(options: Any) -> bytes | None:
    found = (options.get("headers") or {}).get("traceparent")
    return None if found is None else found.encode()


@pytest.fixture
def opentelemetry(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The part of the API that is used, with a span that the test sets."""
    context = SimpleNamespace(is_valid=False, trace_id=0, span_id=0, trace_flags=0)
    module = ModuleType("opentelemetry.trace")
    module.get_current_span = lambda: SimpleNamespace(get_span_context=lambda: context)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", module)
    return context


def test_nothing_is_traced_unless_asked() -> None:
    assert new_tracing(0, RANDOMNESS) is None


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "1", True, None])
def test_a_share_is_from_0_to_1(share: Any) -> None:
    with pytest.raises(InvalidRequest, match="from 0 to 1"):
        new_tracing(share, RANDOMNESS)


def test_a_message_is_put_into_the_trace_of_its_sender_once(opentelemetry: SimpleNamespace) -> None:
    opentelemetry.is_valid, opentelemetry.trace_id, opentelemetry.span_id = True, 1, 2
    tracing = new_tracing(0, RANDOMNESS)
    assert tracing is not None
    assert tracing.new_sampler() is None
    given: Any = {"headers": {"a": "b"}, "priority": "high"}
    changed = tracing.added_to(given)
    assert (changed["headers"]["a"], changed["priority"]) == ("b", "high")
    assert given == {"headers": {"a": "b"}, "priority": "high"}
    own: Any = {"headers": {"traceparent": "mine"}}
    assert tracing.added_to(own) is own


def test_the_current_span_decides(opentelemetry: SimpleNamespace) -> None:
    tracing = new_tracing(0, RANDOMNESS)
    assert tracing is not None
    assert tracing.added_to({}) == {}
    opentelemetry.is_valid, opentelemetry.trace_id, opentelemetry.span_id = True, 0xABC, 0xDEF
    assert header(tracing.added_to({})) == f"00-{0xABC:032x}-{0xDEF:016x}-00".encode()
    opentelemetry.trace_flags = 1
    assert header(new_tracing(1, RANDOMNESS).added_to({})) == f"00-{0xABC:032x}-{0xDEF:016x}-01".encode()  # type: ignore[union-attr]
