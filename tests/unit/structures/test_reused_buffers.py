import pyarrow as pa
import pytest

from quiver.structures.reused_buffers import ReusedBuffers


def address(view: memoryview) -> int:
    return int(pa.py_buffer(view).address)


def test_memory_is_used_again_when_nothing_refers_to_it():
    buffers = ReusedBuffers(1)
    first = buffers.join([b"a" * 1000, b"b"])
    assert bytes(first) == b"a" * 1000 + b"b"
    where = address(first)
    del first
    second = buffers.join([b"cc"])
    assert address(second) == where
    assert bytes(second) == b"cc"


def test_what_is_referred_to_stays_as_it_is():
    buffers = ReusedBuffers(2)
    held = [buffers.join([bytes([number]) * 100]) for number in range(5)]
    assert [bytes(view) for view in held] == [bytes([number]) * 100 for number in range(5)]
    part, arrow = held[0][10:20], pa.py_buffer(held[1])
    del held
    for _ in range(4):
        buffers.join([b"x" * 100])
    assert bytes(part) == bytes(10)
    assert arrow.to_pybytes() == b"\x01" * 100


def test_a_view_may_be_changed():
    buffers = ReusedBuffers(1)
    view = buffers.join([bytes(4)])
    view[1:3] = b"ab"
    assert bytes(view) == b"\0ab\0"


def test_after_a_failure_the_memory_is_used_again():
    buffers = ReusedBuffers(1)
    with pytest.raises(TypeError):
        buffers.join([b"a", 1])
    assert bytes(buffers.join([b"b"])) == b"b"
