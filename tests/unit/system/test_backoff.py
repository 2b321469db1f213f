"""Pauses between attempts."""

import pytest

from quiver.system.backoff import Backoff


class Chance:
    def __init__(self, value: float) -> None:
        self.value = value

    def token(self, byte_count: int) -> bytes:
        return bytes(byte_count)

    def jitter(self) -> float:
        return self.value


def test_pauses_grow_up_to_the_longest_and_begin_again() -> None:
    backoff = Backoff(1.0, 10.0, factor=3.0)
    assert [backoff.next_seconds() for _ in range(4)] == [1.0, 3.0, 9.0, 10.0]
    assert backoff.failures == 4
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.next_seconds() == 1.0


def test_chance_takes_at_most_its_part_away() -> None:
    assert Backoff(8.0, 8.0, jitter=0.5, randomness=Chance(0.0)).next_seconds() == 8.0
    assert Backoff(8.0, 8.0, jitter=0.5, randomness=Chance(1.0)).next_seconds() == 4.0


def test_chance_does_not_shorten_the_pauses_after_it() -> None:
    backoff = Backoff(1.0, 60.0, jitter=0.5, randomness=Chance(1.0))
    assert [backoff.next_seconds() for _ in range(3)] == [0.5, 1.0, 2.0]


def test_jitter_needs_chance() -> None:
    with pytest.raises(ValueError, match="randomness"):
        Backoff(1.0, 2.0, jitter=0.5)
