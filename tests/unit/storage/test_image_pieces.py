"""The pieces of snapshots: what comes out is what went in, and nothing is read from one that is cut off."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.storage.image_pieces import piece, pieces

CONTENTS = st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=5)


@given(CONTENTS)
def test_pieces_come_back_in_order(contents: list[list[int]]) -> None:
    data = b"".join(piece(content) for content in contents)
    assert [msgspec.msgpack.decode(stored) for stored in pieces(data)] == contents


@pytest.mark.parametrize("cut", range(1, len(piece([1, 2, 3]))))
def test_a_piece_that_is_cut_off_is_refused(cut: int) -> None:
    data = piece("whole") + piece([1, 2, 3])[:-cut]
    with pytest.raises(ValueError, match="cut off"):
        list(pieces(data))
