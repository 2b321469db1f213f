"""Nothing escapes from the search language, whatever is written; and the prefilter never hides a message."""

import contextlib
import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import InvalidRequest
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
