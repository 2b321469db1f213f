"""What a client takes from the outside world."""

from typing import NamedTuple

from quiver.client._backend_async import Network, TcpNetwork
from quiver.system.clock import Clock, SystemClock
from quiver.system.randomness import Randomness, SystemRandomness


class AsyncEnvironment(NamedTuple):
    """Time, randomness and connections: the real ones, unless a test or a simulator passes others.

    Pauses and timeouts are the event loop's (asynchronous) or the operating system's (synchronous), so a simulated
    clock belongs to a loop that runs by it.
    """

    clock: Clock = SystemClock()
    randomness: Randomness = SystemRandomness()
    network: Network = TcpNetwork()


REAL_ENVIRONMENT = AsyncEnvironment()
