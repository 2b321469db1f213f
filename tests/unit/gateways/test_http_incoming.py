import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.gateways.http.media import JSON, MSGPACK
from quiver.gateways.http.routes.messages.incoming import MessageToPublish, new_message
from quiver.gateways.http.routes.messages.message import message_response
from quiver.model.errors import InvalidRequest
from quiver.model.message import NewMessage, StoredMessage
from quiver.model.priority import Priority

NOW_MS = 1_000_000


def read(body, media=JSON) -> NewMessage:
    content = body if isinstance(body, bytes) else media.encode(body)
    return new_message(media.decode(content, MessageToPublish), media, NOW_MS)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"value": "text"}', b"text"),
        (b'{"value": ""}', b""),
        (b'{"value": "caf\\u00e9 \\n"}', "café \n".encode()),
        (b'{"value": {"a":  [1, 2.50]}}', b'{"a":  [1, 2.50]}'),
        (b'{"value": 12345678901234567890123}', b"12345678901234567890123"),
        (b'{"value": false}', b"false"),
        (b'{"value": null, "value_base64": "AP8="}', b"\x00\xff"),
        (b'{"tombstone": true}', None),
        (b'{"tombstone": true, "value": null}', None),
        (b'{"tombstone": false, "value": "x"}', b"x"),
    ],
)
def test_a_json_value_is_text_or_kept_as_it_was_written(body, value):
    assert read(body).value == value


@pytest.mark.parametrize(
    ("given_value", "value"),
    [("text", b"text"), (b"\x00\xff", b"\x00\xff"), ({"a": [1]}, b'{"a":[1]}'), (1.5, b"1.5")],
)
def test_a_messagepack_value_is_text_binary_or_turned_into_json(given_value, value):
    assert read({"value": given_value}, MSGPACK).value == value


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "needs value"),
        ({"value": None}, "needs value"),
        ({"value": "x", "tombstone": True}, "tombstone has no value"),
        ({"value": "x", "value_base64": "eA=="}, "not both"),
        ({"value_base64": "!"}, "not base64"),
        ({"value_base64": "eA"}, "not base64"),
        ({"value_base64": "é"}, "not base64"),
        ({"value": "x", "key": "k", "key_base64": "aw=="}, "key or key_base64"),
        ({"value": "x", "headers_base64": {"h": "?"}}, "header 'h' is not base64"),
        ({"value": "x", "priority": "urgent"}, "priority 'urgent'"),
        ({"value": "x", "priority": 5}, "priority 5"),
        ({"value": "x", "ttl": "soon"}, "ttl 'soon'"),
        ({"value": "x", "ttl": -1}, "ttl -1"),
        ({"value": "x", "timestamp": "yesterday"}, "timestamp 'yesterday'"),
        ({"value": "x", "delay": "later"}, "delay 'later'"),
        ({"value": "x", "delay": "5s", "deliver_at": 5_000_000}, "not both"),
        ({"value": "x", "deliverAt": "later"}, "deliver_at 'later'"),
    ],
)
def test_a_bad_message_is_refused_with_the_reason(body, problem):
    with pytest.raises(InvalidRequest, match=problem):
        read(body)


def test_text_that_is_not_utf8_is_refused_for_its_message_alone():
    with pytest.raises(InvalidRequest, match="value is not valid JSON"):
        read(b'{"value": "\xff"}')


def test_a_messagepack_value_that_json_cannot_show_is_refused():
    with pytest.raises(InvalidRequest, match="value is not valid MessagePack"):
        read({"value": msgspec.msgpack.Ext(5, b"x")}, MSGPACK)


def test_every_field_reaches_the_broker():
    message = read(
        {
            "value": "v",
            "key": "k",
            "headers": {"a": "1", "gone": None},
            "headers_base64": {"b": "AP8=", "gone": None},
            "timestamp": "1970-01-01T00:00:01Z",
            "partition": 3,
            "priority": "high",
            "ttl": "1m",
            "id": "once",
            "delay": "5s",
            "unknown": {"x": 1},
        }
    )
    assert message == NewMessage(
        value=b"v",
        key=b"k",
        headers={"a": b"1", "b": b"\x00\xff"},
        timestamp_ms=1000,
        partition=3,
        priority=Priority.HIGH,
        deliver_at_ms=NOW_MS + 5000,
        expires_at_ms=NOW_MS + 65_000,
        id=b"once",
    )


@pytest.mark.parametrize("name", ["deliver_at", "deliverAt"])
def test_both_names_of_the_due_time_are_read(name):
    assert read({"value": "x", name: 5_000_000}).deliver_at_ms == 5_000_000


def test_a_time_to_live_counts_from_the_arrival():
    assert read({"value": "x", "ttl": "1s"}).expires_at_ms == NOW_MS + 1000
    assert read({"value": "x", "ttl": "1s", "deliver_at": NOW_MS + 500}).expires_at_ms == NOW_MS + 1500
    assert read({"value": "x", "ttl": "1s", "deliver_at": NOW_MS - 500}).expires_at_ms == NOW_MS + 1000


def test_null_means_absent_everywhere():
    names = [field.encode_name for field in msgspec.structs.fields(MessageToPublish)]
    assert read(dict.fromkeys(names) | {"value": "x"}) == NewMessage(value=b"x")


def stored(**changes) -> StoredMessage:
    fields = {"partition": 0, "offset": 7, "timestamp_ms": 0, "append_time_ms": 1, "key": None, "value": b""}
    return StoredMessage(**(fields | {"headers": {}, "priority": Priority.LOW} | changes))


def test_a_message_is_shown_with_both_of_its_times():
    shown = msgspec.to_builtins(message_response(stored(value=b"x")))
    assert shown == {
        "partition": 0,
        "offset": 7,
        "timestamp": "1970-01-01T00:00:00.000Z",
        "appended_at": "1970-01-01T00:00:00.001Z",
        "priority": "low",
        "value": "x",
    }


def test_a_tombstone_is_shown_as_one():
    shown = msgspec.to_builtins(message_response(stored(value=None)))
    assert shown["value"] is None
    assert shown["tombstone"] is True


@given(
    value=st.one_of(st.none(), st.binary(max_size=50), st.text(max_size=20).map(str.encode)),
    key=st.one_of(st.none(), st.binary(max_size=20)),
    headers=st.dictionaries(st.text(max_size=5), st.binary(max_size=10), max_size=4),
    media=st.sampled_from([JSON, MSGPACK]),
)
def test_what_is_shown_can_be_published_again_and_is_the_same(value, key, headers, media):
    shown = media.encode(message_response(stored(value=value, key=key, headers=headers)))
    fields = media.decode(shown, dict)
    del fields["partition"], fields["offset"], fields["appended_at"]
    again = read(fields, media)
    assert (again.value, again.key, again.headers or {}) == (value, key, headers)


def test_base64_responses_are_plain_base64():
    shown = message_response(stored(value=b"\xff\xfe", key=b"\xff", headers={"h": b"\xff", "t": b"x"}))
    assert base64.b64decode(shown.value_base64, validate=True) == b"\xff\xfe"
    assert (shown.key_base64, shown.headers, shown.headers_base64) == ("/w==", {"t": "x"}, {"h": "/w=="})
