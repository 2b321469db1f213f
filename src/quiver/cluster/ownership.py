"""Which broker runs which worker, when several brokers share one store. Pure.

Units belong to workers as on one machine (`placement.py`); here a worker is not a process but what moves between
brokers as a whole. One broker, the controller, decides; everything that it knows is in coordination.
"""

from bisect import insort
from collections.abc import Collection, Mapping
from typing import NamedTuple


class Assignment(NamedTuple):
    """Of one worker."""

    node: str
    """The broker that runs it."""
    epoch: int
    """Rises with every change of the broker."""
    next_node: str = ""
    """It is to be handed over to this one, which its broker does when it has stopped it."""
    start_epoch: int = 0
    """Of the start by which its broker runs it; 0: it has not begun."""


Assignments = Mapping[int, Assignment]


def handed_over(assignment: Assignment) -> Assignment:
    """What the broker of a worker writes when it has stopped it."""
    return Assignment(assignment.next_node, assignment.epoch + 1)


def changed_assignments(
    nodes: Collection[str], workers: int, current: Assignments, draining: Collection[str] = ()
) -> dict[int, Assignment]:
    """What the controller writes, given the brokers that are alive; nothing when all is as it should be.

    Workers of brokers that are gone move at once, all others stay unless brokers differ by more than one worker.
    Those that are `draining` hand over everything, if there is another broker. The same input gives the same result,
    and applying it leaves nothing to change.
    """
    if not nodes:
        return {}
    staying = [node for node in nodes if node not in draining] or list(nodes)
    wanted = {worker: _without_gone(current.get(worker), nodes, staying) for worker in range(workers)}
    load = dict.fromkeys(sorted(staying), 0)
    for assignment in wanted.values():
        if assignment.node and _future_node(assignment) in load:
            load[_future_node(assignment)] += 1
    for worker, assignment in wanted.items():
        if assignment.node and _future_node(assignment) not in load:
            least = _least_loaded(load)
            wanted[worker] = assignment._replace(next_node=least)
            load[least] += 1
        elif not assignment.node:
            least = _least_loaded(load)
            wanted[worker] = Assignment(least, assignment.epoch + 1)
            load[least] += 1
    _balance(wanted, load)
    return {worker: assignment for worker, assignment in wanted.items() if assignment != current.get(worker)}


def _without_gone(assignment: Assignment | None, nodes: Collection[str], staying: Collection[str]) -> Assignment:
    """No node where the broker of a worker is gone. Its successor has not begun: it may be another one."""
    if assignment is None:
        return Assignment("", 0)
    if assignment.node not in nodes:
        return Assignment("", assignment.epoch)
    return assignment if assignment.next_node in staying else assignment._replace(next_node="")


def _future_node(assignment: Assignment) -> str:
    return assignment.next_node or assignment.node


def _least_loaded(load: Mapping[str, int]) -> str:
    return min(load, key=lambda node: (load[node], node))


def _balance(wanted: dict[int, Assignment], load: dict[str, int]) -> None:
    """Hands over the last workers of the brokers that have most."""
    of_node: dict[str, list[int]] = {node: [] for node in load}
    for worker in sorted(wanted):
        if (node := _future_node(wanted[worker])) in of_node:
            of_node[node].append(worker)
    while True:
        least = _least_loaded(load)
        most = max(load, key=lambda node: (load[node], node))
        if load[most] - load[least] <= 1:
            return
        worker = of_node[most].pop()
        insort(of_node[least], worker)
        assignment = wanted[worker]
        if assignment.node == least:  # on its way to another broker, and stays where it is
            wanted[worker] = assignment._replace(next_node="")
        else:
            wanted[worker] = assignment._replace(next_node=least)
        load[most] -= 1
        load[least] += 1
