"""The load of a cluster under test: a bank, and the actors of the interleaving test that fit on a small machine
beside three nodes and etcd."""

from blackbox.cluster.chaos.transfers import transfer
from blackbox.interleaving import scenario as plan
from blackbox.interleaving.actor_threads import ActorThreads
from blackbox.interleaving.actors import lookers, publishers, queue_workers, stream_members, transactions

GROUPS = (plan.LANES, plan.TAKERS, plan.READERS, plan.COPYING_READERS, plan.COPYING_TAKERS)


def start_load(threads: ActorThreads, world: plan.World) -> None:
    """What ends when the load ends."""
    for topic in (plan.ORDERS, plan.JOBS):
        for how in (publishers.produce_with_sdk, publishers.publish_with_sdk):
            name = f"{how.__name__}-{topic}"
            threads.start(how, world, name, topic, name=name)
    threads.start(publishers.publish_over_http, world, "publish_over_http", plan.JOBS, name="publish_over_http")
    threads.start(transactions.publish_in_transactions, world, "sdk-transactions", name="sdk-transactions")
    for number in range(2):
        threads.start(transfer, world, f"teller-{number}", name=f"teller-{number}")


def start_rest(threads: ActorThreads, world: plan.World) -> None:
    """What goes on until nothing is left to do."""
    for group in (plan.LANES, plan.TAKERS):
        threads.start(queue_workers.work_over_http, world, f"http-{group.name}", group, name=f"http-{group.name}")
        threads.start(queue_workers.work_with_sdk, world, f"sdk-{group.name}", group, name=f"sdk-{group.name}")
    for number in range(2):
        for group in plan.STREAM_GROUPS:
            name = f"sdk-{group.name}-{number}"
            threads.start(stream_members.take_part, world, name, group, name=name)
    threads.start(transactions.copy_with_sdk, world, "sdk-copy", plan.COPYING_TAKERS, name="sdk-copy")
    threads.start(transactions.copy_over_http, world, "http-copy", plan.COPYING_TAKERS, name="http-copy")
    threads.start(lookers.look_at_positions, world, "look-positions", name="look-positions")
    threads.start(lookers.look_at_generations, world, "look-generations", name="look-generations")
