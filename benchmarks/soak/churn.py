"""Everything that a broker must forget again: connections, topics, groups, leases, transactions, delays, queues.

After a warm-up a round leaves nothing behind, so the memory of the broker must stay as it is.
"""

import time

import quiver
from benchmarks.roles import Role, Watch
from benchmarks.servers.broker import Broker
from benchmarks.soak.throttle import Throttle
from benchmarks.workloads.queues.queen import Caller

PROCESSES = 2
MESSAGES = 200
REJECTED = 4
PARTITIONS = 50


def churn_roles(broker: Broker, seconds: float, share: float) -> dict[str, Role]:
    return {
        f"churn {number}": Role(_churn, (broker.address, broker.http_port, number, seconds, share))
        for number in range(PROCESSES)
    }


def _churn(address: str, http_port: int, number: int, seconds: float, share: float, watch: Watch) -> int:
    rounds = 0
    watch.start()
    throttle, until = Throttle(share), time.monotonic() + seconds
    while time.monotonic() < until:
        name = f"churn-{number}-{rounds}"
        with quiver.connect(address) as client:
            client.topics.create(name, partitions=2)
            _messages(client, name)
            _transactions(client, name, number)
            _delete(client, name)
        _queue(Caller(http_port), f"{name}-queen")
        rounds += 1
        throttle.pause()
    return rounds


def _delete(client: quiver.Client, name: str) -> None:
    for topic in (name, f"{name}.dlq"):
        client.topics.delete(topic)
    left = {group.id for group in client.groups.list()}
    for group in (f"{name}-stream", f"{name}-work"):
        if group in left:
            client.groups.delete(group)


def _messages(client: quiver.Client, name: str) -> None:
    with client.producer(name) as producer:
        producer.send_many([b"x" * 100] * MESSAGES, keys=[b"%d" % number for number in range(MESSAGES)])
    later = client.publish(name, b"later", delay="1h")
    client.delayed.cancel(name, later.partition, later.offset)
    with client.stream(name, group=f"{name}-stream") as stream:
        for count, _ in enumerate(stream, 1):
            if count == MESSAGES:
                break
    with client.work(name, group=f"{name}-work") as jobs:
        for count, job in enumerate(jobs, 1):
            if count <= REJECTED:
                job.reject("no")
            else:
                job.ack()
            if count == MESSAGES:
                break
    while client.dead_letters.list(name).total < REJECTED:
        time.sleep(0.01)


def _transactions(client: quiver.Client, name: str, number: int) -> None:
    with client.transaction() as committed:
        committed.publish(name, b"committed")
    aborted = client.transactional(f"churn-{number}").begin()
    aborted.publish(name, b"aborted")
    aborted.abort()


def _queue(caller: Caller, name: str) -> None:
    caller.call("POST", "/configure", {"queue": name})
    caller.push(name, [f"partition-{number}" for number in range(PARTITIONS)])
    caller.drain(name, PARTITIONS, partitions=PARTITIONS)
    caller.call("DELETE", f"/resources/queues/{name}")
    caller.close()
