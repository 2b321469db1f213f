"""A tenth member joins and leaves a group on 100 partitions, again and again, while messages flow steadily.

A change has settled when every partition that it moves has reached its new owner's `on_assign`. Beside that, the gaps
in reading: first while the group is left alone, then during the changes, of partitions that stay with their reader
and of those that move.
"""

import multiprocessing
import time
from typing import Any

import quiver
from benchmarks.payload import endless_bodies, paced
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.workloads.streams.reading import Member, Phases, Reading, gaps, seconds_to_settle

TOPIC, GROUP = "rebalance", "readers"
PARTITIONS, PROCESSES, MEMBERS_EACH = 100, 3, 3
MESSAGE_BYTES = 100
ROUNDS_A_SECOND = 20
"""Of the producer: a message in every partition."""
FULL_ROUNDS, QUIET_SECONDS, PAUSE_SECONDS, SETTLE_SECONDS = 100, 10.0, 0.3, 60.0


def measure_group_rebalance(run: Run) -> None:
    """Once: a repetition is a round here."""
    rounds = max(4, int(FULL_ROUNDS * run.scale.share))
    quiet_seconds = max(2.0, QUIET_SECONDS * run.scale.share)
    done = multiprocessing.get_context("spawn").Event()
    with Broker(run.scratch / "rebalance") as broker:
        with quiver.connect(broker.address) as client:
            client.topics.create(TOPIC, partitions=PARTITIONS, durability="interval")
        roles = {f"stay {n}": Role(_stay, (broker.address, done)) for n in range(PROCESSES)}
        roles["move"] = Role(_move, (broker.address, rounds, quiet_seconds, done))
        roles["produce"] = Role(_produce, (broker.address, done))
        detail = f"{PROCESSES * MEMBERS_EACH + 1} members, {PARTITIONS} partitions, {rounds} joins and leaves"
        with run.measuring(
            "quiver",
            "group-rebalance",
            size=MESSAGE_BYTES,
            durability="interval",
            detail=detail,
            server_pids=[broker.pid],
        ) as metrics:
            outcomes = run_roles(roles, timeout=300)
            staying = [reading for n in range(PROCESSES) for reading in outcomes[f"stay {n}"].result]
            moving, phases = outcomes["move"].result
            metrics |= latency_metrics("settle", seconds_to_settle(moving, staying))
            found = gaps([*staying, *moving], phases)
            metrics |= latency_metrics("quiet_gap", found.quiet)
            metrics |= latency_metrics("staying_gap", found.staying)
            metrics |= latency_metrics("moving_gap", found.moving)


def _produce(address: str, done: Any, watch: Watch) -> None:
    pool = endless_bodies(MESSAGE_BYTES)
    with quiver.connect(address) as client, client.producer(TOPIC, linger=0) as producer:
        watch.start()
        for _ in paced(10**9, ROUNDS_A_SECOND):
            for partition in range(PARTITIONS):
                producer.send(next(pool), partition=partition)
            if done.is_set():
                return


def _stay(address: str, done: Any, watch: Watch) -> list[Reading]:
    clients = [quiver.connect(address) for _ in range(MEMBERS_EACH)]
    members = [Member(client, TOPIC, GROUP) for client in clients]
    for member in members:
        member.join()
    watch.start()
    done.wait()
    readings = [member.leave() for member in members]
    for client in clients:
        client.close()
    return readings


def _move(address: str, rounds: int, quiet_seconds: float, done: Any, watch: Watch) -> tuple[list[Reading], Phases]:
    """Returns what each life of the moving member saw."""
    readings: list[Reading] = []
    with quiver.connect(address) as client, quiver.connect(address) as observer:
        watch.start()
        _wait_until_stable(observer, PROCESSES * MEMBERS_EACH)
        quiet_from = time.monotonic()
        time.sleep(quiet_seconds)
        changes_from = time.monotonic()
        for _ in range(rounds // 2):
            member = Member(client, TOPIC, GROUP)
            member.join()
            _wait_until_stable(observer, PROCESSES * MEMBERS_EACH + 1)
            readings.append(member.leave())
            _wait_until_stable(observer, PROCESSES * MEMBERS_EACH)
        end = time.monotonic()
        done.set()
    return readings, Phases(quiet_from, changes_from, end)


def _wait_until_stable(client: Any, member_count: int) -> None:
    """And a little longer, so that readers are back at their pace."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        group = next(group for group in client.groups.list() if group.id == GROUP)
        if group.state == "stable" and group.members == member_count:
            time.sleep(PAUSE_SECONDS)
            return
        time.sleep(0.01)
    raise RuntimeError(f"the group was not stable with {member_count} members within {SETTLE_SECONDS} s: {group}")
