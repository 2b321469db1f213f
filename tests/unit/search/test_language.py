"""The search language: what expressions mean."""

from typing import Any

import pyarrow as pa
import pytest

from quiver.model.errors import InvalidRequest
from quiver.search.language.expression import Columns, Expression

VALUES = [
    b'{"total": 350, "sku": "A-42", "items": [{"name": "pen"}, {"name": "ink"}], "ok": true, "_id": 7}',
    b'{"total": 3, "sku": "B-1", "customer": {"name": "J\\u00f6rg", "mail": "joerg@example.org"}, "ok": false}',
    b"plain text, no JSON",
    None,
    b"\xff\xfe not UTF-8",
    b'{"total": "350", "sku": null}',
    b"[1, 2, 3]",
    b'"caf\\u00e9"',
]
HEADERS = [[("trace", b"t-1")], None, [("trace", b"\xff"), ("source", b"web")], None, None, None, None, None]
COLUMNS = Columns(
    value=pa.array(VALUES, pa.binary()),
    key=pa.array([b"c-1", b"c-2", None, b"c-1", None, b"\xff", None, None], pa.binary()),
    headers=pa.array(HEADERS, pa.map_(pa.string(), pa.binary())),
    timestamps=pa.array([1_700_000_000_000 + n for n in range(8)], pa.int64()),
    offsets=range(100, 108),
    partition=3,
    priority="high",
)


def found(text: str, columns: Columns = COLUMNS) -> list[int]:
    return [place for places in Expression(text).select(columns) for place in places]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("value.total > 300", [0]),
        ("value.total == 3", [1]),
        ("value.total != 350", [1, 5]),
        ('value.total == "350"', [5]),
        ("number(value.total) == 350", [0, 5]),
        ('value["sku"] == "A-42" and value.ok', [0]),
        ("value.ok == true", [0]),
        ("value.ok == 1", []),
        ("not value.ok == true", [1, 2, 3, 4, 5, 6, 7]),
        ("value._id == 7", [0]),
        ("value.__class__ is not null", []),
        ('value.items[0].name == "pen"', [0]),
        ('value.items[-1].name == "ink"', [0]),
        ("value.items[9] is not null", []),
        ("value[1] == 2", [6]),
        ('value.customer.name == "J\u00f6rg"', [1]),
        ('value == "caf\u00e9"', [7]),
        ('"caf\u00e9" in value', [7]),
        ("2 in value", [6]),
        ('"sku" in value', [0, 1, 5]),
        ('"sku" not in value', [2, 4, 6, 7]),
        ('value.sku in ["A-42", "B-1"]', [0, 1]),
        ('contains(value, "example")', [1]),
        ('contains(value, "pen")', [0]),
        ('contains(value, "plain")', [2]),
        ('"no JSON" in text', [2]),
        ('contains(text, "\\\\u00e9")', [7]),
        ('"not UTF-8" in value', [4]),
        ("value is null", [3]),
        ("exists(value)", [0, 1, 2, 4, 5, 6, 7]),
        ('key == "c-1"', [0, 3]),
        ('"c-" in key', [0, 1, 3]),
        ('key.startswith("c-") and offset > 101', [3]),
        ("key is null", [2, 4, 6, 7]),
        ('headers.trace == "t-1"', [0]),
        ('headers["source"] == "web"', [2]),
        ("len(headers) == 2", [2]),
        ("exists(headers.trace)", [0, 2]),
        ("partition == 3 and offset == 104", [4]),
        ("partition == 2", []),
        ('priority == "high" and offset < 102', [0, 1]),
        ("timestamp == 1700000000003", [3]),
        ('timestamp >= "2023-11-14T22:13:20.006Z"', [6, 7]),
        ('time("2023-11-14T22:13:20.006Z") <= timestamp', [6, 7]),
        ("100 <= offset < 102", [0, 1]),
        ('matches(value.sku, "^A-4")', [0]),
        ('matches(value.sku, "^[AB]-\\d+$")', [0, 1]),
        ('value.sku.matches("^B") or matches(key, "2")', [1]),
        ('not matches(value.sku, "^A")', [1, 2, 3, 4, 5, 6, 7]),
        ('matches(string(matches(key, "c-1")), "true")', [0, 3]),
        ('lower(value.sku) == "a-42"', [0]),
        ('upper(value.customer.name) == "J\u00d6RG"', [1]),
        ("len(value.items) == 2", [0]),
        ('type(value) == "object"', [0, 1, 5]),
        ("value.total + 1 == 351", [0]),
        ('value.sku + "x" == "A-42x"', [0]),
        ("value.total * 2 - 1 > 600 and value.total / 0 is null", [0]),
        ("value.total % 2 == 1 and value.total // 2 == 1", [1]),
        ("-value.total < -300", [0]),
        ("abs(-value.total) == 3", [1]),
        ('value.sku < "B"', [0]),
        ("value.sku < 5", []),
        ("value.missing == value.absent", []),
        ("value.missing != 5", []),
        ("value.missing in [1, 2]", []),
        ("value.missing not in [1, 2]", []),
        ('string(value.customer) == "x" or offset in (100, 101)', [0, 1]),
        ("(\nvalue.total\n > 300)", [0]),
        ("  true  ", list(range(8))),
        ("False", []),
    ],
)
def test_an_expression_selects_rows(text: str, rows: list[int]) -> None:
    assert found(text) == rows


def test_a_frame_without_keys_and_headers_has_none() -> None:
    bare = COLUMNS._replace(key=None, headers=None, timestamps=5)
    assert found('key == "c-1"', bare) == []
    assert found("key is null and timestamp == 5", bare) == list(range(8))
    assert found("headers.trace is null", bare) == list(range(8))


def test_a_slice_of_a_longer_column_is_looked_at_alone() -> None:
    cut = COLUMNS._replace(value=COLUMNS.value.slice(1, 2), key=COLUMNS.key.slice(1, 2), headers=None)
    assert found('contains(value, "plain")', cut) == [1]
    assert found('value.sku == "A-42"', cut) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the expression is empty"),
        ("   ", "the expression is empty"),
        ("value.total >", "this is not an expression: invalid syntax (column 1"),
        ("value.total = 3", "compare with =="),
        ("valu.total > 3", "there is no 'valu'; a message has value, text, key"),
        ("  valu > 3", "(column 3)"),
        ('"\u00e9" == valu', "(column 8)"),
        ("value.total ** 9", "there are + - * / // %"),
        ("1 << 100", "this operator is not part of the language"),
        ("~value", "there are not and -"),
        ("lambda: 1", "functions of your own are not part of the language"),
        ("[x for x in value]", "loops are not part of the language"),
        ("1 if value else 2", "`if` is not part"),
        ('f"{value}"', "f-strings are not part"),
        ("(value := 3)", "assignments are not part"),
        ('{"a": 1}', "objects are not part"),
        ("value[1:2]", "slices are not part"),
        ("value == null", "comparisons with null are false; write `is null`"),
        ("None == value", "comparisons with null are false"),
        ("value is 5", "`is` is only for null"),
        ('__import__("os")', "there is no function '__import__'"),
        ("value.__class__()", "there is no function '__class__'"),
        ("value.foo(1)(2)", "only functions with a name can be called"),
        ("len(value, key)", "len takes 1, not 2"),
        ("len(x=value)", "write len(x)"),
        ("contains(*value)", "write contains(value, part)"),
        ("lower == 3", "lower is a function"),
        ("matches(key, value.pattern)", "the pattern is a text in quotes"),
        ('matches(key, "(")', "the pattern is not one of RE2"),
        ('matches(key, "(?=a)")', "the pattern is not one of RE2"),
        (f'matches(key, "{"a" * 600}")', "at most 500 characters"),
        ('matches(key, "(a{500}){3}")', "at most 200 times"),
        ('matches(key, "((a{150}){150}){150}")', "the pattern is not one of RE2"),
        ("1" * 30 + " == offset", "this number is too large"),
        ("b'x' == key", "is not a text, a number, true, false or null"),
        ("3j == offset", "is not a text, a number, true, false or null"),
        ("... == offset", "is not a text, a number, true, false or null"),
        ("offset == 1\x00", "this is not an expression"),
        ("x" * 2001, "at most 2,000"),
        ("not " * 40 + "value", "nested deeper than 32 levels"),
        ("value" + ".a" * 40, "nested deeper than 32 levels"),
        ("(" * 300 + "1" + ")" * 300, "this is not an expression"),
        ("-" * 1999 + "1", "nested"),
        (" or ".join(["len(key)"] * 51), "more than 50 functions"),
        ('timestamp > "yesterday"', "neither RFC 3339"),
    ],
)
def test_what_is_not_part_of_the_language_is_refused_with_a_sentence_and_a_column(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Expression(text)
    assert said in caught.value.message
    assert caught.value.message.startswith("where: ")


def rows_of(*values: Any) -> Columns:
    return Columns(pa.array(values, pa.binary()), None, None, 0, range(len(values)), 0, "normal")


def test_costs_stay_bounded() -> None:
    numbers = rows_of(b'{"n": 340282366920938463463374607431768211455, "t": "' + b"x" * 50_000 + b'"}')
    assert found(" * ".join(["value.n"] * 20) + " > 0", numbers) == []
    assert found("len(" + " + ".join(["value.t"] * 20) + ") > 0", numbers) == []
    assert found('value.t * 1000000000 == ""', numbers) == []
    assert found('"%1000000000d" % 1 == ""', numbers) == []
    assert found('matches(value.t, "x$")', rows_of(b'{"t": "' + b"x" * 70_000 + b'y"}')) == [0]


def test_hostile_values_do_not_stop_a_search() -> None:
    values = rows_of(
        b"[" * 100_000,
        b"1" * 5000,
        b'{"a": "\\ud800"}',
        b'{"a": 1e400}',
        b'{"a": "\\u0000"}',
        b"[" * 200 + b"]" * 200,
        b'{"a": "here"}',
    )
    assert found('value.a == "here"', values) == [6]
    assert found('matches(value.a, "here")', values) == [6]
    assert found('matches(string(value), "here")', values) == [6]
    assert found("value == value or true", values) == list(range(7))
