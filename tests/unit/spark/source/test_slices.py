"""Cutting, packing and limiting slices: the same offsets come out that went in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import OffsetOutOfRange
from quiver.model.limits import MIB
from quiver_spark.source.data_loss import lost
from quiver_spark.source.slices import SLICE_BYTES, WORTHWHILE_BYTES, Slice, cut, limit_rows, pack


@st.composite
def _slices(draw: st.DrawFn) -> list[Slice]:
    slices = []
    for partition in range(draw(st.integers(0, 6))):
        start, length = draw(st.integers(0, 1000)), draw(st.integers(0, 10_000))
        slices.append(Slice("t", partition, start, start + length, 1, length * draw(st.integers(0, 100_000))))
    return slices


def _covered(slices: list[Slice]) -> dict[int, list[tuple[int, int]]]:
    """By partition, the borders of what is covered, with slices that touch joined."""
    covered: dict[int, list[tuple[int, int]]] = {}
    for each in slices:
        parts = covered.setdefault(each.partition, [])
        if parts and parts[-1][1] == each.start:
            parts[-1] = (parts[-1][0], each.stop)
        else:
            parts.append((each.start, each.stop))
    return covered


@given(_slices(), st.integers(1, 16), st.none() | st.integers(1, 200))
def test_slices_cover_exactly_what_was_cut(slices: list[Slice], cores: int, least: int | None) -> None:
    found = cut(slices, cores=cores, min_slices=least)
    assert all(each.offsets for each in found)
    assert _covered(found) == _covered([each for each in slices if each.offsets])
    assert sum(each.size_bytes for each in found) <= sum(each.size_bytes for each in slices)
    if least is not None:
        assert len(found) >= min(least, sum(each.offsets for each in slices))
    biggest = max((each.size_bytes // each.offsets for each in found), default=0)
    assert all(each.size_bytes <= SLICE_BYTES + biggest for each in found)


@given(_slices(), st.integers(1, 16))
def test_packing_keeps_order_and_loses_nothing(slices: list[Slice], cores: int) -> None:
    parts = cut(slices, cores=cores)
    groups = pack(parts, cores=cores)
    assert [each for group in groups for each in group] == parts
    assert all(groups)
    for group in groups:
        assert len(group) == 1 or sum(each.size_bytes for each in group) <= SLICE_BYTES


def test_a_narrow_read_has_a_task_for_each_core() -> None:
    """Partitions of about the same size do not make one more."""
    partitions = [Slice("t", n, 0, 200_000, 1, (75 + n % 2) * MIB) for n in range(8)]
    for narrow, expected in ((True, 2), (False, 8)):
        assert len(pack(cut(partitions, cores=2, narrow=narrow), cores=2, narrow=narrow)) == expected
    small = [each._replace(size_bytes=each.size_bytes // 8) for each in partitions]
    assert [len(pack(cut(small, cores=2, narrow=narrow), cores=2, narrow=narrow)) for narrow in (True, False)] == [
        2,
        4,
    ]


def test_parallelism_follows_data_and_cores() -> None:
    large, small = Slice("t", 0, 0, 10**7, 1, 2000 * MIB), Slice("t", 1, 0, 100, 1, 1000)
    assert len(cut([large], cores=2)) == 16
    assert len(cut([large], cores=64)) == 128
    assert len(cut([large._replace(size_bytes=10 * MIB)], cores=2)) == 2
    assert len(cut([small], cores=2)) == 1
    assert len(cut([small], cores=2, min_slices=30)) == 30
    assert len(cut([small], cores=2, min_slices=500)) == 100
    many = [small._replace(partition=n) for n in range(100)]
    assert [len(group) for group in pack(cut(many, cores=2), cores=2)] == [100]
    assert WORTHWHILE_BYTES < SLICE_BYTES


@given(_slices(), st.integers(1, 30_000))
def test_a_limit_is_kept_and_shared(slices: list[Slice], most: int) -> None:
    found = limit_rows(slices, most)
    assert [each.start for each in found] == [each.start for each in slices]
    assert all(0 <= short.offsets <= whole.offsets for short, whole in zip(found, slices, strict=True))
    total, taken = sum(each.offsets for each in slices), sum(each.offsets for each in found)
    assert taken <= most
    assert taken == total or taken > 0
    busy = [index for index, each in enumerate(slices) if each.offsets]
    if most >= len(busy):
        assert all(found[index].offsets for index in busy)
        assert taken >= min(total, most) - len(busy)


def test_a_limit_below_the_number_of_partitions_takes_the_longest() -> None:
    slices = [Slice("t", n, 0, 10 + n) for n in range(5)]
    assert [each.offsets for each in limit_rows(slices, 2)] == [0, 0, 0, 1, 1]


def test_what_people_read_names_the_last_offset() -> None:
    assert str(Slice("orders", 0, 10, 12)) == "offsets 10 to 11 of orders-0"
    assert str(Slice("orders", 0, 10, 11)) == "offset 10 of orders-0"
    with pytest.raises(OffsetOutOfRange, match=r"^offset 10 of orders-0 is gone: retention; start at 11, keep"):
        lost(Slice("orders", 0, 10, 50), 11, "retention", fails=True)
