import pytest

from quiver.client.produce.outgoing import outgoing
from quiver.client.produce.payload import header_bytes, key_bytes, message_bytes, value_bytes
from quiver.model.errors import InvalidRequest
from quiver.model.priority import Priority


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"raw", b"raw"), ("täxt", "täxt".encode()), (None, None), ({"a": [1, None]}, b'{"a":[1,null]}'), (5, b"5"),
     (True, b"true"), (bytearray(b"x"), b"x"), (memoryview(b"yy")[1:], b"y"), ([], b"[]")],
)  # fmt: skip
def test_values(value, expected):
    assert value_bytes(value) == expected


def test_what_is_no_value_key_or_header():
    for bad in (object(), "\ud800", {1, 2}.__iter__()):
        with pytest.raises(InvalidRequest):
            value_bytes(bad)
    for bad in (5, 1.5, ["k"], "\ud800"):
        with pytest.raises(InvalidRequest):
            key_bytes(bad)
    for bad in ({"a": 1}, {1: b"a"}, ["a"], {"a": None}):
        with pytest.raises(InvalidRequest):
            header_bytes(bad)


def test_headers_and_sizes():
    assert header_bytes({"a": "ä", "b": b"\xff"}) == {"a": "ä".encode(), "b": b"\xff"}
    assert header_bytes({}) is None
    assert message_bytes(b"123", b"45", {"ä": b"6"}) == 8
    assert message_bytes(None, None, None) == 0


def test_options_of_a_message():
    message, route = outgoing("v", "k", {"priority": "high", "partition": 3, "ttl": "2s", "timestamp": 77}, 1000)
    assert (message.value, message.key, message.timestamp_ms, message.expires_at_ms) == (b"v", b"k", 77, 3000)
    assert route == (Priority.HIGH, 3, False)
    message, route = outgoing(b"v", None, {"headers": None, "delay": None}, 0)
    assert (message.headers, message.deliver_at_ms, route) == (None, None, (Priority.NORMAL, None, False))


def test_a_delayed_message_lives_from_its_arrival_on():
    message, route = outgoing(b"v", None, {"delay": 5, "ttl": "2s"}, 1000)
    assert (message.deliver_at_ms, message.expires_at_ms, route.delayed) == (6000, 8000, True)
    message, route = outgoing(b"v", None, {"deliver_at": "1970-01-01T00:00:09Z"}, 1000)
    assert (message.deliver_at_ms, message.expires_at_ms, route.delayed) == (9000, None, True)
    message, _ = outgoing(b"v", None, {"deliver_at": 500, "ttl": "2s"}, 1000)
    assert (message.deliver_at_ms, message.expires_at_ms) == (500, 3000)
    with pytest.raises(InvalidRequest):
        outgoing(b"v", None, {"delay": 5, "deliver_at": 9000}, 1000)
