"""Pages over several partitions against sorting everything."""

import asyncio

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quiver.delays.page import OpenPending, delay_page
from quiver.delays.pending import PRIORITY_BITS, Pending

times = st.lists(
    st.lists(st.integers(1, 20) | st.integers(1_700_000_000_000, 1_700_000_000_050), max_size=30), max_size=4
)


@given(times, st.integers(0, 100), st.integers(0, 20))
def test_a_page_is_a_part_of_the_whole(partitions, skip, limit):
    filled = {}
    for number, of_one in enumerate(partitions):
        pending = Pending(0)
        pending.add(np.arange(len(of_one)), np.array(of_one, np.int64) << PRIORITY_BITS | 2)
        filled[number] = pending
    whole = sorted((at_ms, index, id) for index, of_one in enumerate(partitions) for id, at_ms in enumerate(of_one))
    found = asyncio.run(delay_page(OpenPending(filled), skip, limit))
    assert found == [(*place, 2) for place in whole[skip : skip + limit]]
