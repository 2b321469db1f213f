"""Randomness. Everything that needs it takes a Randomness."""

import os
import random
from typing import Protocol


class Randomness(Protocol):
    def token(self, byte_count: int) -> bytes:
        """Bytes that nobody can guess."""
        ...

    def jitter(self) -> float:
        """A float from 0.0 to 1.0, for spreading retries."""
        ...


class SystemRandomness:
    def token(self, byte_count: int) -> bytes:
        return os.urandom(byte_count)

    def jitter(self) -> float:
        return random.random()  # noqa: S311 - spreads retries, guards nothing


def seeded(seed: str) -> random.Random:
    """Randomness that is the same in every run."""
    return random.Random(seed)  # noqa: S311 - for simulations


class SeededRandomness:
    """The same tokens and jitter in every run, for simulations."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def token(self, byte_count: int) -> bytes:
        return self._chance.randbytes(byte_count)

    def jitter(self) -> float:
        return self._chance.random()
