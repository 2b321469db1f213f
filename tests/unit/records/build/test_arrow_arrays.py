"""Arrays from buffers are those that pyarrow builds."""

import numpy as np
import pyarrow as pa
import pytest

from quiver.records import build
from quiver.records.arrow_arrays import (
    mask_array,
    number_array,
    number_scalar,
    repeated_text,
    to_mask,
    to_numbers,
)
from quiver.records.build import headers_array, list_array
from quiver.records.columns import HEADERS_TYPE

LISTS = [
    ([], pa.binary()),
    ([b""], pa.binary()),
    ([b"a", b"", b"bcd"], pa.binary()),
    ((b"a", b"b"), pa.binary()),
    ([b"a", None, b"bcd"], pa.binary()),
    ([None] * 9, pa.binary()),
    ([b"a", "text"], pa.binary()),
    ([bytearray(b"ab"), memoryview(b"cd")], pa.binary()),
    (["a", "", "\u00e9"], pa.string()),
    (["a", None], pa.string()),
    ([], pa.int64()),
    ([1, -1, 2**63 - 1], pa.int64()),
    ([None, 5] * 20, pa.int64()),
    ([1, 2.5], pa.int64()),
    (np.array([1, 2]), pa.int64()),
]
REFUSED = [
    ([b"a", 5], pa.binary()),
    ([b"a", object()], pa.binary()),
    (["a", 5], pa.string()),
    (["\ud800"], pa.string()),
    ([2**63], pa.int64()),
    (["1"], pa.int64()),
]


@pytest.fixture(autouse=True)
def _as_before_pandas_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_would_import_pandas", lambda: True)


@pytest.mark.parametrize(("items", "kind"), LISTS)
def test_a_list_becomes_what_pyarrow_makes_of_it(items, kind):
    built = list_array(items, kind)
    built.validate(full=True)
    assert built.type == kind
    assert built.equals(pa.array(items, kind))
    assert built.null_count == pa.array(items, kind).null_count


@pytest.mark.parametrize(("items", "kind"), REFUSED)
def test_what_pyarrow_refuses_is_refused_with_its_words(items, kind):
    with pytest.raises(Exception) as expected:
        pa.array(items, kind)
    with pytest.raises(expected.type) as found:
        list_array(items, kind)
    assert str(found.value) == str(expected.value)


def test_numbers_of_both_widths_and_of_another_kind():
    assert number_array(np.arange(3)).equals(pa.array([0, 1, 2], pa.int64()))
    assert number_array(np.arange(6, dtype=np.int32)[::2]).equals(pa.array([0, 2, 4], pa.int32()))
    time = pa.timestamp("ms", "UTC")
    assert number_array(np.array([7]), time).equals(pa.array([7], time))
    assert number_scalar(7).equals(pa.scalar(7, pa.int64()))


@pytest.mark.parametrize("count", [0, 1, 8, 9])
def test_masks_and_repeated_texts(count):
    mask = np.arange(count) % 3 == 0
    assert mask_array(mask).equals(pa.array(mask, pa.bool_()))
    assert repeated_text("high\u00e9", count).equals(pa.array(["high\u00e9"] * count, pa.string()))


@pytest.mark.parametrize("rows", [[], [None], [{"a": b"1"}, None, {"b": b"", "c": b"3"}], [{"a": b"1"}] * 10])
def test_headers(rows):
    built = headers_array(rows)
    built.validate(full=True)
    assert built.equals(pa.array([None if row is None else list(row.items()) for row in rows], HEADERS_TYPE))


@pytest.mark.parametrize("numbers", [pa.array([], pa.int64()), pa.array(range(9), pa.int32())[2:7], pa.array([1, 2])])
def test_numbers_are_read_back(numbers):
    found = to_numbers(numbers)
    assert found.dtype == numbers.type.to_pandas_dtype()
    assert found.tolist() == numbers.to_pylist()


@pytest.mark.parametrize("mask", [pa.array([], pa.bool_()), pa.array([True, False] * 9)[3:14], pa.array([True])])
def test_masks_are_read_back(mask):
    assert to_mask(mask).dtype == np.bool_
    assert to_mask(mask).tolist() == mask.to_pylist()
