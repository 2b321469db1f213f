"""CPU time of the controller's decisions: pure functions of nodes and units."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from quiver.cluster.controller import NodeInfo, changed_units, moved_off, new_units
from quiver.cluster.spreading import spread
from quiver.replication.unit import Unit

NODES = 100
RACKS = ("a", "b", "c")
COLUMNS = ("units", "first placement", "nothing to do", "one node lost", "one node removed", "three nodes added")


def led_units(count: int, nodes: Mapping[int, NodeInfo]) -> dict[int, Unit]:
    """All replicas in sync, led by their preferred leaders."""
    units = new_units(range(count), nodes, replica_count=3, min_isr=2)
    return units | changed_units(units, nodes)


def all_nodes(count: int = NODES) -> dict[int, NodeInfo]:
    return {number: NodeInfo(1, rack=RACKS[number % len(RACKS)]) for number in range(1, count + 1)}


def measure_decisions(counts: Iterable[int]) -> list[tuple[str, ...]]:
    return [_row(count) for count in counts]


def _row(count: int) -> tuple[str, ...]:
    nodes = all_nodes()
    without_one = {number: info for number, info in nodes.items() if number != NODES}
    placement, _ = _timed(lambda: new_units(range(count), nodes, replica_count=3, min_isr=2))
    units = led_units(count, nodes)
    found = [
        _timed(lambda: changed_units(units, nodes)),
        _timed(lambda: changed_units(units, without_one)),
        _timed(lambda: moved_off(units, NODES, without_one)),
        _timed(lambda: spread(units, all_nodes(NODES + 3))),
    ]
    shown = [f"{seconds * 1000:.1f} ms, {len(changed):,} units" for seconds, changed in found]
    return f"{count:,}", f"{placement * 1000:.0f} ms", *shown


def _timed(case: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    found = case()
    return time.process_time() - begun, found
