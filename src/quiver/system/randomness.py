"""Randomness. Everything that needs it takes a Randomness."""

import os
import random
from typing import Protocol


class Randomness(Protocol):
    def token(self, byte_count: int) -> bytes:
        """Bytes nobody can guess."""
        ...

    def jitter(self) -> float:
        """A float from 0.0 to 1.0, for spreading retries."""
        ...


class SystemRandomness:
    def token(self, byte_count: int) -> bytes:
        return os.urandom(byte_count)

    def jitter(self) -> float:
        return random.random()  # noqa: S311 - spreads retries, guards nothing
