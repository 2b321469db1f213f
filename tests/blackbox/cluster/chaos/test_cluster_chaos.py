"""Three nodes and three etcd members under load, with faults; afterwards every message is accounted for.

A run takes its faults from a seed, though not its timing. In the suite the seed and the few faults are fixed; `make
chaos-cluster` takes 15 minutes in rounds, each with a new cluster, a seed of its own and all faults.
QUIVER_CLUSTER_SECONDS is the time of the load of all rounds, QUIVER_CLUSTER_SEED the first seed,
QUIVER_CLUSTER_FAULTS a list of faults to choose from.
"""

import logging
import os
import random
import time
from pathlib import Path

import pytest

from blackbox.callers.http_caller import HttpCaller
from blackbox.cluster.chaos.cluster_load import GROUPS, start_load, start_rest
from blackbox.cluster.chaos.cluster_under_test import ClusterUnderTest, cluster_under_test
from blackbox.cluster.chaos.faults import FAULTS, Faults
from blackbox.cluster.chaos.replicas import check_replicas
from blackbox.cluster.chaos.transfers import check_bank
from blackbox.cluster.replicated_nodes import StartBroker
from blackbox.interleaving import scenario as plan
from blackbox.interleaving.actor_threads import ActorThreads
from blackbox.interleaving.checks.evidence import Evidence, Violation
from blackbox.interleaving.draining import drain
from blackbox.interleaving.final_state import FinalState, read_final_state
from blackbox.interleaving.history import Recorder
from blackbox.interleaving.report import report, summary, violations
from etcd_cluster import program

pytestmark = pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")

SHORT_SECONDS = 90.0
"""At most: it ends after its few faults."""
PACE = 4.0
"""What three nodes on a small machine can do, one transaction per message included."""
ROUND_SECONDS = 150.0
RECOVERY_SECONDS = 200.0
"""The longest that the last fault may take, and the cluster after it."""
OF_CLOCKS = ("check_delays", "check_one_holder")
STOP_SECONDS = 60.0
SHORT_FAULTS = ["both_leaders", "mute", "full_disk", "pause"]
SECONDS = float(os.environ.get("QUIVER_CLUSTER_SECONDS", SHORT_SECONDS))
IS_LONG = "QUIVER_CLUSTER_SECONDS" in os.environ
ROUNDS = max(1, round(SECONDS / ROUND_SECONDS))
SEED = int(os.environ.get("QUIVER_CLUSTER_SEED", "0")) or (
    random.SystemRandom().randrange(1, 2**31) if IS_LONG else 1
)
DECK = os.environ.get("QUIVER_CLUSTER_FAULTS", ",".join(FAULTS if IS_LONG else SHORT_FAULTS)).split(",")
FILE = Path(__file__).relative_to(Path(__file__).parents[4])


@pytest.mark.timeout(180 + 10 * SECONDS / ROUNDS)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_cluster_under_faults(
    number: int, start_broker: StartBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "quiver.client")
    seed, seconds = SEED + number, SECONDS / ROUNDS
    chosen = f"QUIVER_CLUSTER_SEED={seed} QUIVER_CLUSTER_SECONDS={seconds:g} QUIVER_CLUSTER_FAULTS={','.join(DECK)}"
    again = f"{chosen} .venv/bin/pytest {FILE}"
    print(f"seed {seed}; again: {again}")
    with cluster_under_test(tmp_path, start_broker) as cluster:
        world = plan.World(cluster.http_port, cluster.address, seed, Recorder(), GROUPS, PACE)
        make_topics(cluster)
        faults = Faults(world, cluster, DECK, once=not IS_LONG)
        began = time.monotonic()
        problems = run(world, faults, seconds)
        final = FinalState() if problems else read_final_state(HttpCaller(cluster.http_port))
        differing = [] if problems else stop_and_compare(cluster)
    evidence = Evidence(world.recorder.events, final, GROUPS)
    found = {} if problems else violations(evidence)
    if faults.done["clock"]:  # times that one node wrote are compared with the clock of another
        found = {check: entries for check, entries in found.items() if check not in OF_CLOCKS}
    for check, entries in (("check_bank", list(check_bank(evidence))), ("check_replicas", differing)):
        if entries:
            found[check] = entries
    acked = sum(event.outcome == "ok" for event in evidence.of("publish"))
    caused = ", ".join(f"{name} {count}" for name, count in sorted(faults.done.items()))
    print(
        f"survived in {time.monotonic() - began:.0f} s: {caused}; {cluster.held_bytes} bytes were held in the network"
    )
    print(f"{acked} messages acked, {len(final.stored)} stored, {len(final.dead_letters)} dead letters")
    print(summary(evidence))
    if found or problems:
        whole = tmp_path / "history.txt"
        whole.write_text("\n".join(event.line(evidence.events[0].began) for event in evidence.events))
        words = [again, f"the whole history, and the logs of the nodes: {tmp_path}"]
        pytest.fail("\n".join([*words, report(evidence, found), *problems]), pytrace=False)


def make_topics(cluster: ClusterUnderTest) -> None:
    call = HttpCaller(cluster.http_port)
    for topic, partitions in plan.PARTITIONS.items():
        status, answer = call("POST", "/topics", {"name": topic, "partitions": partitions, **plan.SETTINGS})
        assert status == 201, answer


def stop_and_compare(cluster: ClusterUnderTest) -> list[Violation]:
    topic_ids = range(1, len(plan.PARTITIONS) + 1)  # in the order in which they were made
    for number, node in cluster.nodes.items():
        assert node.terminate(STOP_SECONDS) == 0, f"node {number}:\n{node.log_text[-4000:]}"
    return list(check_replicas({number: node.data_dir for number, node in cluster.nodes.items()}, topic_ids))


def run(world: plan.World, faults: Faults, seconds: float) -> list[str]:
    """The load, and then the rest of it, until nothing is left to do; what went wrong with actors."""
    load, rest, trouble = ActorThreads(), ActorThreads(), ActorThreads()
    start_rest(rest, world)
    start_load(load, world)
    trouble.start(faults.run, name="faults")
    trouble.wait(seconds)
    world.set(world.quiet)
    trouble.join(RECOVERY_SECONDS)
    load.join()
    problems = [*load.failures, *trouble.failures] or drain(HttpCaller(world.http_port), world)
    world.set(world.stopping)
    rest.join()
    return [*problems, *rest.failures]
