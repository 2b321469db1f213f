"""What a frame of 50 messages takes of the broker's processor, from its socket to its ack, with few and many
partitions."""

from itertools import cycle

import quiver
from benchmarks.payload import endless_bodies
from benchmarks.quiver_subject import Durability
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import cpu_seconds

MESSAGE_BYTES = 100
FRAME_MESSAGES = 50
FULL_FRAMES = 20_000
DURABILITIES: tuple[Durability, ...] = ("fsync", "interval")
ALL_AT_ONCE = 1_000
"""So many frames are in flight before the producer waits for their acks, as a producer with many keys has them."""


def measure_small_frames(run: Run) -> None:
    with Broker(run.scratch / "frames") as broker:
        for partitions in (1, run.scale.many_partitions):
            for durability in DURABILITIES:
                topic = f"{durability}-{partitions}"
                with quiver.connect(broker.address) as client:
                    client.topics.create(topic, partitions=partitions, durability=durability)
                for _ in run.repetitions():
                    _measure(run, broker, topic, partitions, durability)


def _measure(run: Run, broker: Broker, topic: str, partitions: int, durability: Durability) -> None:
    frames = run.scale.count(FULL_FRAMES)
    with run.measuring(
        "quiver",
        "small-frames",
        size=MESSAGE_BYTES,
        durability=durability,
        detail=f"frames of {FRAME_MESSAGES} messages, {partitions} partitions",
        server_pids=[broker.pid],
    ) as metrics:
        role = Role(_publish, (broker.address, topic, partitions, frames, broker.pid))
        outcome = run_roles({"publish": role}, timeout=300)["publish"]
        metrics["rate"] = frames / outcome.seconds
        metrics["broker_us_per_frame"] = outcome.result / frames * 1e6


def _publish(address: str, topic: str, partitions: int, frames: int, broker_pid: int, watch: Watch) -> float:
    """Returns the broker's processor time. The first frame of each partition, which makes its files, comes before."""
    pool = endless_bodies(MESSAGE_BYTES)
    batches = cycle([[next(pool) for _ in range(FRAME_MESSAGES)] for _ in range(ALL_AT_ONCE)])
    with (
        quiver.connect(address) as client,
        client.producer(topic, batch_messages=FRAME_MESSAGES, linger=0) as producer,
    ):
        for partition in range(partitions):
            producer.send_many(next(batches), partition=partition)
        producer.flush()
        watch.start()
        before = cpu_seconds([broker_pid])
        for number in range(frames):
            producer.send_many(next(batches), partition=number % partitions)
            if number % ALL_AT_ONCE == ALL_AT_ONCE - 1:
                producer.flush()
        producer.flush()
        watch.stop()
        return cpu_seconds([broker_pid]) - before
