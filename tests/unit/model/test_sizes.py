import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import InvalidSetting
from quiver.model.numbers import parse_size_bytes
from quiver.model.topic import TopicConfig

MIB = 1 << 20


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (MIB, MIB),
        ("1048576", MIB),
        ("1MiB", MIB),
        ("1 mib", MIB),
        ("64 KiB", 64 << 10),
        ("10MB", 10 * MIB),
        ("1.5g", 3 << 29),
        ("1T", 1 << 40),
        (str(2**62), 2**62),
    ],
)
def test_sizes_as_users_write_them(given: object, size: int) -> None:
    assert parse_size_bytes(given, 0, 2**62) == size


@pytest.mark.parametrize(
    "bad", ["", "MiB", "1 PiB", "-1k", "1.2.3m", True, 1.5, None, [], "9" * 400 + "k", "\u0661k"]
)
def test_what_is_not_a_size_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match=r"size|range"):
        parse_size_bytes(bad, 0, 2**62)


@given(st.integers(min_value=0, max_value=2**62))
def test_every_number_of_bytes_is_read_exactly(size: int) -> None:
    assert parse_size_bytes(str(size), 0, 2**62) == parse_size_bytes(size, 0, 2**62) == size


def test_topic_settings_take_sizes() -> None:
    config = TopicConfig().changed(
        {"retention_bytes": "10GiB", "segment_bytes": "64 KiB", "max_message_bytes": "10MB"}
    )
    assert (config.retention_bytes, config.segment_bytes, config.max_message_bytes) == (10 << 30, 64 << 10, 10 * MIB)
    assert config.changed({"retention_bytes": None}).retention_bytes is None
    with pytest.raises(InvalidSetting, match="'1k' is out of range"):
        config.changed({"segment_bytes": "1k"})
