"""The outside world behind small classes: clock, files, randomness. Tests and simulators pass their own."""
