"""How long a client waits for its next ack when a broker gets a signal."""

import os
import time
from collections.abc import Sequence

import quiver
from benchmarks.roles import Role, Watch, run_roles

_BEFORE_SECONDS, _AFTER_SECONDS = 0.5, 5.0
_LONG_SECONDS = 0.3
"""A wait of more than that is the one that is looked for."""


def longest_publish(address: str, topic: str, pids: Sequence[int], number: int) -> float:
    """The longest that a publish took around the signal to these processes, in seconds."""
    roles = {"publish": Role(_publish, (address, topic)), "signal": Role(_signal, (pids, number))}
    return float(run_roles(roles)["publish"].result)


def _publish(address: str, topic: str, watch: Watch) -> float:
    longest = 0.0
    with quiver.connect(address) as client:
        client.publish(topic, b"first")
        watch.start()
        end = time.monotonic() + _BEFORE_SECONDS + _AFTER_SECONDS
        while (begun := time.monotonic()) < end and longest < _LONG_SECONDS:
            client.publish(topic, b"value")
            longest = max(longest, time.monotonic() - begun)
        watch.stop()
    return longest


def _signal(pids: Sequence[int], number: int, watch: Watch) -> None:
    watch.start()
    time.sleep(_BEFORE_SECONDS)
    for pid in pids:
        os.kill(pid, number)
    watch.stop()
