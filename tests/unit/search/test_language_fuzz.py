"""Nothing escapes from the search language, whatever is written; and the prefilter never hides a message."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import InvalidRequest
from quiver.search.language import prefilter
from quiver.search.language.expression import Columns, Expression

WORDS = (
    "value text key headers timestamp offset partition priority .a .b .__class__ .__globals__ ['a'] [0] [-1] ( ) , "
    "== != < > <= >= in is not and or + - * / // % ** << @ ~ null None true 3 2.5 'x' \"c-1\" 9999999999999999999 "
    "contains matches len lower string type __import__ eval open getattr lambda : if else for := f'{value}' \\ # [ ] "
    "{ } * ' \" \n \x00 \u00e9 \ud800"
)
TOKENS = WORDS.split(" ")
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text('ab\\"/\u00e9\n', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)
texts = st.text('ab\\"/\u00e9\n', min_size=1, max_size=3)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """So that the few rows of a test are several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefilter, "_BLOCK_ROWS", 3)
        yield


def columns(values: list[bytes | None], keys: list[bytes | None]) -> Columns:
    return Columns(
        pa.array(values, pa.binary()), pa.array(keys, pa.binary()), None, 7, range(len(values)), 1, "normal"
    )


SOME = columns([b'{"a": [1, {"b": "x"}]}', b"\xff", None, b'"c-1"', b"[" * 2000], [b"c-1", None, b"", b"\xff", b"x"])


@given(st.lists(st.sampled_from(TOKENS), max_size=12).map(" ".join) | st.text(max_size=40))
def test_any_text_is_refused_with_a_sentence_or_evaluated(text: str) -> None:
    with contextlib.suppress(InvalidRequest):
        rows = [row for chunk in Expression(text).select(SOME) for row in chunk]
        assert set(rows) <= set(range(5))


def selected(text: str, given: Columns, *, prefiltered: bool) -> list[int]:
    expression = Expression(text)
    if not prefiltered:
        expression._clauses = []
    return [row for chunk in expression.select(given) for row in chunk]


@given(st.lists(st.tuples(json_values, st.booleans(), texts), max_size=6), texts, texts)
def test_the_prefilter_changes_no_result(rows: list[tuple[Any, bool, str]], part: str, other: str) -> None:
    values = [json.dumps(value, ensure_ascii=is_ascii).encode() for value, is_ascii, _ in rows]
    found = columns([*values, None, part.encode()], [*(key.encode() for _, _, key in rows), None, other.encode()])
    quoted, second = json.dumps(part, ensure_ascii=False), json.dumps(other, ensure_ascii=False)
    for text in (
        f"value == {quoted}",
        f"{quoted} in value",
        f"{quoted} in value.a",
        f"value.a == {quoted} or value.b == {second}",
        f"contains(value, {quoted}) and contains(key, {second})",
        f"{quoted} in text",
        f"value.a in [{quoted}, {second}]",
        f"startswith(key, {quoted}) or key.endswith({second})",
        f"not contains(value, {quoted})",
        f"matches(value.a, {quoted})" if part.isalnum() else "true",
    ):
        assert selected(text, found, prefiltered=True) == selected(text, found, prefiltered=False), text


numbers = (
    st.integers(-12_000, 12_000).map(str)
    | st.floats(-2000, 2000).map(repr)
    | st.decimals(-1000, 1000, places=17).map(str)
    | st.sampled_from(["-0", "0.0", "1e3", "99999E-2", "1000.0", "999.99999999999999999", "18446744073709551616"])
)
constants = st.integers(-1100, 1100) | st.floats(-1100, 1100) | st.sampled_from([999, 1000, 1000.0, 2**63, 1e15])


@given(st.lists(numbers, min_size=1, max_size=30), constants, st.sampled_from(["<", "<=", ">", ">=", "=="]))
def test_numbers_are_found_by_their_digits_as_by_their_value(
    written: list[str], constant: float, operator: str
) -> None:
    found = columns([f'{{"b": 1, "a" :{number}}}'.encode() for number in written], [None] * len(written))
    for text in (f"value.a {operator} {constant}", f"{constant} {operator} value['a']"):
        assert selected(text, found, prefiltered=True) == selected(text, found, prefiltered=False)


@given(
    st.lists(st.text("ab-4\u00e9 ", max_size=6) | st.integers(0, 50), min_size=1, max_size=8),
    st.sampled_from(["^a", "a$", "a+b", "^[^a]b", "a.b", r"\bb", "(?i)A|b$", "4{2}", r"\Ba", "b*", "^$"]),
)
def test_patterns_are_found_in_the_value_as_in_the_field(fields: list[Any], pattern: str) -> None:
    found = columns([json.dumps({"a": a}, ensure_ascii=False).encode() for a in fields], [None] * len(fields))
    text = f"matches(value.a, {pattern!r})"
    assert selected(text, found, prefiltered=True) == selected(text, found, prefiltered=False)
