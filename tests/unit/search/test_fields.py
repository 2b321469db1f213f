"""Reading only some fields of a value finds the same messages as reading all of it."""

import pyarrow as pa
import pytest

from quiver.search.language import expression
from quiver.search.language.expression import Columns, Expression
from quiver.search.language.fields import read_values

VALUES = [
    b'{"total": 301, "state": "new", "customer": {"name": "Ada", "tags": ["a", "b"]}, "order-id": "x-1"}',
    b'{"total": 5, "state": null, "other": {"total": 999}, "total": 400}',
    b'{"startswith": "c-", "total": "many"}',
    b"{}",
    b"[301, 5]",
    b'"total"',
    b"301",
    b"null",
    b"not json {",
    b'{"total": 301',
    b"[" * 5_000,
    b"\xff\xfe",
    None,
]


@pytest.mark.parametrize(
    ("text", "reads_all"),
    [
        ("value.total > 300", False),
        ('value.customer.name == "Ada" and value["order-id"].startswith("x")', False),
        ('matches(value.state, "^n") or value.customer.tags[0] == "a"', False),
        ("value.total is null", False),
        ("value.total in [5, 301, 400] and not exists(value.other)", False),
        ('value.startswith("tot")', True),
        ('value.startswith == "c-"', False),
        ("value == 301", True),
        ("exists(value) and value.total > 300", True),
        ("value[0] == 301", True),
        ('contains(value, "Ada")', True),
        ("len(text) > 10", True),
    ],
)
def test_the_same_is_found(monkeypatch: pytest.MonkeyPatch, text: str, reads_all: bool) -> None:
    columns = Columns(pa.array(VALUES, pa.binary()), None, None, 0, range(len(VALUES)), 0, "normal")
    only_fields = Expression(text)
    assert (only_fields._read_values is read_values) is reads_all
    monkeypatch.setattr(expression, "value_reader", lambda tree: read_values)
    assert list(only_fields.select(columns)) == list(Expression(text).select(columns))
