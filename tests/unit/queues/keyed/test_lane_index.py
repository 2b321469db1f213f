"""The index of lanes against a sorted list, in blocks of a few."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.queues.state.keyed import lane_index as lanes_index
from quiver.queues.state.keyed.lane import NOTHING, Lane
from quiver.queues.state.keyed.lane_index import LaneIndex

STEPS = st.lists(st.tuples(st.sampled_from(["append", "add", "remove", "first"]), st.integers(0, 60)), max_size=80)


@given(STEPS)
def test_lanes_come_in_the_order_of_their_offsets(steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes_index, "_MOST", 4)
        index, model = LaneIndex(), dict[int, Lane]()
        for verb, number in steps:
            offset = max(model, default=0) + 1 if verb == "append" else number
            if verb in ("append", "add") and offset not in model:
                model[offset] = Lane(b"%d" % offset)
                index.add(offset, model[offset])
            elif verb == "remove" and model:
                chosen = sorted(model)[number % len(model)]
                index.remove(chosen)
                del model[chosen]
            elif verb == "first" and model:
                index.remove(index.lowest)
                del model[min(model)]
            assert list(index) == [model[offset] for offset in sorted(model)]
            assert len(index) == len(model)
            assert index.lowest == min(model, default=NOTHING)
            assert index.first is model.get(index.lowest)
            assert all(index.get(offset) is lane for offset, lane in model.items())
