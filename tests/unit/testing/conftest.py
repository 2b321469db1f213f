"""A history without events, in a world where nothing happens."""

import pytest

from quiver.testing.simulation.history import History
from quiver.testing.simulation.world import World


@pytest.fixture
def history() -> History:
    return History(World(1))
