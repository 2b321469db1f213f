"""The formats of `quiver consume`."""

import json
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.cli.formats.message_format import NAMED, Row, parse_format, unescape
from quiver.model.errors import InvalidRequest

ROW = Row("orders", 2, 41, 1_700_000_000_500, b"k1", b"v\xc3\xa9", {"source": b"web", "raw": b"\xff"}, "high")
BARE = Row("orders", 0, 0, 0, None, None, {}, "normal")


def test_value_is_the_bytes_and_a_line_end() -> None:
    assert parse_format("value").render([ROW, BARE]) == b"v\xc3\xa9\n\n"


def test_key_value_has_a_tab_between() -> None:
    assert parse_format("key-value").render([ROW]) == b"k1\tv\xc3\xa9\n"


def test_full_shows_everything_in_one_line() -> None:
    line = parse_format("full").render([ROW])
    for part in (b"orders-2@41", b"2023-11-14T22:13:20.500Z", b"high", b"key=k1", b"source=web"):
        assert part in line
    assert line.count(b"\n") == 1


def test_json_has_text_where_the_bytes_are_text() -> None:
    decoded = json.loads(parse_format("json").render([ROW]))
    assert decoded == {
        "topic": "orders",
        "partition": 2,
        "offset": 41,
        "timestamp": "2023-11-14T22:13:20.500Z",
        "key": "k1",
        "value": "vé",
        "headers": {"source": "web"},
        "headers_base64": {"raw": "/w=="},
        "priority": "high",
    }


def test_json_says_null_for_a_tombstone_and_leaves_an_absent_key_out() -> None:
    decoded = json.loads(parse_format("json").render([BARE]))
    assert decoded["value"] is None
    assert "key" not in decoded


@given(st.binary())
def test_json_loses_no_byte_of_a_value(value: bytes) -> None:
    decoded = json.loads(parse_format("json").render([BARE._replace(value=value)]))
    if "value" in decoded:
        assert decoded["value"].encode() == value
    else:
        assert b64decode(decoded["value_base64"]) == value


def test_a_template_takes_fields_and_escapes() -> None:
    assert parse_format("{offset}\\t{key}={value}\\\\{{}}").render([ROW]) == b"41\tk1=v\xc3\xa9\\{}\n"


def test_a_format_says_what_it_needs() -> None:
    assert parse_format("{offset} {key}").fields == {"offset", "key"}
    assert parse_format("value").fields == {"value"}
    assert parse_format("json").fields == set(Row._fields) - {"timestamp_ms"} | {"timestamp"}


@pytest.mark.parametrize("text", [*NAMED, "json"])
def test_no_messages_are_no_bytes(text: str) -> None:
    assert parse_format(text).render([]) == b""


@pytest.mark.parametrize(
    "text", ["jsn", "", "{nothing}", "{value.__class__}", "{value!r}", "{offset:>9}", "{", "{0}", "{}"]
)
def test_anything_else_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_format(text)
    assert "format" in caught.value.message


@pytest.mark.parametrize(
    ("text", "expected"), [("\\t", "\t"), ("\\\\t", "\\t"), ("\\", "\\"), ("a\\nb", "a\nb"), ("\\x", "\\x"), ("", "")]
)
def test_unescape(text: str, expected: str) -> None:
    assert unescape(text) == expected
