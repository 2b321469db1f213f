"""The offsets of a query in its checkpoint."""

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from quiver_spark.source.stream_offset import StreamOffset, TopicProgress, offset_json, parse_offset

_PROGRESS = st.builds(
    TopicProgress, st.integers(0, 2**40), st.dictionaries(st.integers(0, 40), st.integers(0, 2**62), max_size=20)
)
_OFFSETS = st.dictionaries(st.sampled_from(["orders", "id", "0", "a.b-c"]), _PROGRESS)


@given(_OFFSETS)
def test_an_offset_survives_the_checkpoint(offset: StreamOffset) -> None:
    assert parse_offset(json.loads(json.dumps(offset_json(offset)))) == offset


@given(_OFFSETS, st.integers())
def test_equal_offsets_are_equal_as_text(offset: StreamOffset, seed: int) -> None:
    """Spark compares texts: a query whose offset only changed its order would run an empty batch again and again."""
    chance = random.Random(seed)
    shuffled = {
        name: TopicProgress(
            offset[name].id, dict(chance.sample(list(offset[name].next.items()), len(offset[name].next)))
        )
        for name in chance.sample(list(offset), len(offset))
    }
    assert json.dumps(offset_json(shuffled)) == json.dumps(offset_json(offset))
