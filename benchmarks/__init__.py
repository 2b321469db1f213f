"""Measures Quiver and its peers on the same work, from Python, on one machine: `python -m benchmarks`."""
