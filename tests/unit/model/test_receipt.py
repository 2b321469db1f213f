import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import InvalidReceipt
from quiver.model.settlement import Receipt, parse_receipt


@given(
    topic=st.from_regex(r"[A-Za-z0-9._-]{1,240}", fullmatch=True),
    partition=st.integers(0, 9_999),
    offset=st.integers(0, 2**62),
    attempt=st.integers(1, 10_000),
    group_id=st.integers(1, 2**40),
    lease_id=st.integers(1, 2**63),
)
def test_a_receipt_survives_its_text(
    topic: str, partition: int, offset: int, attempt: int, group_id: int, lease_id: int
) -> None:
    receipt = Receipt(topic, partition, offset, attempt, group_id, lease_id)
    assert parse_receipt(str(receipt)) == receipt


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "orders:0:1", "orders:0:1:1:", "orders:0:1:1:a", "orders:0:1:1:a-b-c", "or ders:0:1:1:a-b"),
        *("orders:-1:1:1:a-b", "orders:0:1:1:A-B", "orders:0:1:1:a-b\n", "orders:\u0663:1:1:a-b"),
        "a" * 300 + ":0:1:1:a-b",
        *("orders:0:" + "9" * 30 + ":1:a-b", None, 7, b"orders:0:1:1:a-b", ["orders:0:1:1:a-b"]),
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: object) -> None:
    with pytest.raises(InvalidReceipt) as refused:
        parse_receipt(text)
    assert len(str(refused.value)) < 250
