"""Everything at once against one broker, through SDK and HTTP, with kills; afterwards every message is accounted for.

A run takes its choices from a seed, though not its timing. In the suite the seed is fixed and the load lasts for
40 seconds; `make chaos` (QUIVER_LONG=1) takes an hour, in rounds with seeds of their own that follow a new one.
QUIVER_INTERLEAVE_SEED, QUIVER_INTERLEAVE_SECONDS (of a round) and QUIVER_INTERLEAVE_ROUNDS choose otherwise. Each
start of the broker has one to three workers, which are killed one by one, too; QUIVER_INTERLEAVE_WORKERS lists other
numbers. A minute has about eight kills (of all, of the supervisor, of one worker), and what two minutes leave in the
copying groups takes about as long to drain.
"""

import logging
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from blackbox.callers.http_caller import HttpCaller
from blackbox.interleaving import scenario as plan
from blackbox.interleaving.actor_threads import ActorThreads
from blackbox.interleaving.actors import (
    administration,
    lookers,
    poll_members,
    publishers,
    queue_workers,
    resets,
    stream_members,
)
from blackbox.interleaving.actors import transactions as tx
from blackbox.interleaving.actors.kills import Trouble
from blackbox.interleaving.checks.evidence import Evidence
from blackbox.interleaving.draining import drain
from blackbox.interleaving.final_state import read_final_state
from blackbox.interleaving.history import Recorder, read_events
from blackbox.interleaving.report import report, summary, violations
from blackbox.processes.broker_process import BrokerProcess, free_port

LONG = bool(os.environ.get("QUIVER_LONG"))
SECONDS = float(os.environ.get("QUIVER_INTERLEAVE_SECONDS", "300" if LONG else "40"))
ROUNDS = int(os.environ.get("QUIVER_INTERLEAVE_ROUNDS", "11" if LONG else "1"))
SEED = int(os.environ.get("QUIVER_INTERLEAVE_SEED", "0")) or (
    random.SystemRandom().randrange(1, 2**31) if LONG else 1
)
NUMBERS = [int(number) for number in os.environ.get("QUIVER_INTERLEAVE_WORKERS", "1,2,3").split(",")]
"""Of workers: the broker is started with one of them."""
FILE = Path(__file__).relative_to(Path(__file__).parents[3])


def start_consumers(threads: ActorThreads, world: plan.World) -> None:
    for number in range(2):
        for group in (plan.LANES, plan.TAKERS, plan.PLAIN, plan.REPEATERS):
            name = f"http-{group.name}-{number}"
            threads.start(queue_workers.work_over_http, world, name, group, name=name)
        for group in plan.STREAM_GROUPS:
            name = f"sdk-{group.name}-{number}"
            threads.start(stream_members.take_part, world, name, group, name=name)
        for group in plan.POLL_GROUPS:
            name = f"http-{group.name}-{number}"
            is_short = group is plan.REWINDERS
            member = partial(poll_members.poll, is_short=is_short, resets=is_short)
            threads.start(member, world, name, group, name=name)
    for group in (plan.LANES, plan.TAKERS):
        name = f"sdk-{group.name}"
        threads.start(queue_workers.work_with_sdk, world, name, group, name=name)
    threads.start(tx.copy_with_sdk, world, "sdk-copy", plan.COPYING_TAKERS, name="sdk-copy")
    threads.start(tx.copy_over_http, world, "http-copy", plan.COPYING_TAKERS, name="http-copy")


def start_load(threads: ActorThreads, world: plan.World) -> None:
    """What ends when the load ends."""
    for topic in (plan.ORDERS, plan.JOBS):
        for how in (publishers.publish_over_http, publishers.publish_with_sdk, publishers.produce_with_sdk):
            name = f"{how.__name__}-{topic}"
            threads.start(how, world, name, topic, name=name)
    threads.start(tx.publish_in_transactions, world, "sdk-transactions", name="sdk-transactions")
    threads.start(tx.publish_in_http_transactions, world, "http-transactions", name="http-transactions")
    for number, (path, setting, values) in enumerate(administration.SETTINGS_IN_MOTION):
        name = f"alter-{number}"
        threads.start(administration.change_setting, world, name, path, setting, values, name=name)
    threads.start(resets.reset_now_and_then, world, "repeat", plan.REPEATERS, name="repeat")
    threads.start(administration.add_partitions, world, "grow", name="grow")
    threads.start(administration.disturb_other_topics, world, "side", name="side")


def start_lookers(threads: ActorThreads, world: plan.World) -> None:
    topics = [*plan.PARTITIONS, *administration.SIDE_TOPICS]
    for number in range(2):
        threads.start(lookers.look_over_http, world, f"look-{number}", topics, name=f"look-{number}")
    threads.start(lookers.look_at_streams, world, "look-streams", topics, name="look-streams")
    threads.start(lookers.search_topics, world, "search", topics, name="search")
    threads.start(lookers.look_at_positions, world, "look-positions", name="look-positions")
    threads.start(lookers.look_at_generations, world, "look-generations", name="look-generations")
    threads.start(lookers.look_with_sdk, world, "look-sdk", name="look-sdk")


def make_topics(broker: BrokerProcess) -> None:
    for topic, partitions in plan.PARTITIONS.items():
        body = {"name": topic, "partitions": partitions, **plan.SETTINGS}
        status, answer = broker.request("POST", "/topics", body)
        assert status == 201, answer
    yearly = {"name": "yearly", "cron": "0 0 1 1 *", "topic": "copies", "value": "x"}
    assert broker.request("POST", "/schedules", yearly)[0] in (200, 201)


@pytest.mark.long
@pytest.mark.timeout(120 + ROUNDS * (2 * SECONDS + 300))
@pytest.mark.parametrize("number", range(ROUNDS))
def test_everything_at_once(
    number: int, start_broker: Callable[..., BrokerProcess], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "quiver.client")
    seed = SEED + number
    numbers = ",".join(map(str, NUMBERS))
    chosen = (
        f"QUIVER_INTERLEAVE_SEED={seed} QUIVER_INTERLEAVE_SECONDS={SECONDS:g} QUIVER_INTERLEAVE_WORKERS={numbers}"
    )
    again = f"{chosen} .venv/bin/pytest {FILE}"
    print(f"seed {seed}; again: {again}")
    ports = (free_port(), free_port())
    workers = str(random.Random(seed).choice(NUMBERS))
    broker = start_broker("--http-port", str(ports[0]), "--native-port", str(ports[1]), "--workers", workers)
    world = plan.World(ports[0], f"127.0.0.1:{ports[1]}", seed, Recorder())
    make_topics(broker)
    problems = run(world, broker, tmp_path)
    final = read_final_state(HttpCaller(ports[0]))
    evidence = Evidence([*world.recorder.events, *read_events(tmp_path.glob("*.events"))], final)
    found = violations(evidence)
    print(f"{len(final.stored)} messages, {len(final.dead_letters)} dead letters; {summary(evidence)}")
    if found or problems:
        whole = tmp_path / "history.txt"
        whole.write_text("\n".join(event.line(evidence.events[0].began) for event in evidence.events))
        words = [again, f"the whole history: {whole}", f"the broker's log: {broker.log_path}"]
        pytest.fail("\n".join([*words, report(evidence, found), *problems]), pytrace=False)


def run(world: plan.World, broker: BrokerProcess, directory: Path) -> list[str]:
    """The load, and then the rest of it, until nothing is left to do; what went wrong with actors."""
    load, rest, trouble = ActorThreads(), ActorThreads(), ActorThreads()
    start_consumers(rest, world)
    start_load(load, world)
    start_lookers(rest, world)
    trouble.start(Trouble(world, broker, NUMBERS, directory).run, name="trouble")
    trouble.wait(SECONDS)
    world.set(world.quiet)
    trouble.join()
    load.join()
    problems = drain(HttpCaller(world.http_port), world)
    world.set(world.stopping)
    rest.join()
    return [*problems, *load.failures, *rest.failures, *trouble.failures]
