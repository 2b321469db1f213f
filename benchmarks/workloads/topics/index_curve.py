"""Rates, look-ups, memory and start-up as the log grows, on a log of the same shape at 1/256 of its size.

A gigabyte in the default settings is 1,024 frames of 1 MiB in 16 segments of 64 MiB, with an index entry for each
frame. Here frames have 4 KiB and segments 256 KiB: as many frames, entries and segments, a 256th of the bytes.
"""

import datetime
import random
import time
from itertools import islice
from typing import Any

import quiver
from benchmarks.measurement import Metrics
from benchmarks.payload import endless_bodies
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import resident_bytes

TOPIC = "index"
FRAMES_PER_GIGABYTE = 1_024
FRAME_BYTES, SEGMENT_BYTES = 4_096, 256 * 1_024
LOOKUPS = 500
READ_FRAMES = 10_000


def measure_index_curve(run: Run) -> None:
    broker = Broker(run.scratch / "index").start()
    try:
        with quiver.connect(broker.address) as client:
            client.topics.create(TOPIC, partitions=1, durability="interval", segment_bytes=SEGMENT_BYTES)
        written = 0
        for gigabytes in run.scale.index_gigabytes:
            frames = gigabytes * FRAMES_PER_GIGABYTE - written
            with run.measuring(
                "quiver",
                "index-curve",
                size=FRAME_BYTES,
                durability="interval",
                detail=f"index of {gigabytes} GB",
                server_pids=[broker.pid],
            ) as metrics:
                _measure(broker, frames, written + frames, metrics)
            written += frames
    finally:
        broker.discard()


def _measure(broker: Broker, frames: int, total: int, metrics: Metrics) -> None:
    outcome = run_roles({"grow": Role(_grow, (broker.address, frames))}, timeout=300)["grow"]
    metrics["rate_frames"] = frames / outcome.seconds
    metrics["resident_mb"] = resident_bytes(broker.pid) / 1e6
    outcome = run_roles({"look up": Role(_look_up, (broker.address, total))})["look up"]
    by_time, by_offset, metrics["rate_read"] = outcome.result
    metrics |= latency_metrics("time_lookup", by_time) | latency_metrics("offset_read", by_offset)
    broker.stop()
    broker.start()
    metrics["ready_s"] = broker.start_seconds


def _grow(address: str, frames: int, watch: Watch) -> None:
    pool = islice(endless_bodies(FRAME_BYTES), frames)
    with quiver.connect(address) as client, client.producer(TOPIC, batch_bytes=FRAME_BYTES) as producer:
        watch.start()
        for body in pool:
            producer.send(body)
        producer.flush()
        watch.stop()


def _look_up(address: str, total: int, watch: Watch) -> tuple[list[float], list[float], float]:
    """Seconds of each look-up of a time, of each read of one message, and frames read a second."""
    chance = random.Random(total)
    with quiver.connect(address) as client:
        first = next(iter(client.read(TOPIC, start="earliest"))).append_time
        last = int(time.time() * 1000)
        watch.start()
        by_time = [_timed(client, chance.randint(first, last)) for _ in range(LOOKUPS)]
        by_offset = [_timed_read(client, chance.randrange(total)) for _ in range(LOOKUPS)]
        newest = max(0, total - READ_FRAMES)
        begin = time.monotonic()
        read = sum(batch.num_rows for batch in client.read(TOPIC, start=newest, end=total).batches())
        return by_time, by_offset, read / (time.monotonic() - begin)


def _timed(client: Any, at_ms: int) -> float:
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    begin = time.monotonic()
    client.offsets(TOPIC, at)
    return time.monotonic() - begin


def _timed_read(client: Any, offset: int) -> float:
    begin = time.monotonic()
    for message in client.read(TOPIC, start=offset, end=offset + 1):
        if message.offset != offset:
            raise RuntimeError(f"offset {message.offset} was read at {offset}")
    return time.monotonic() - begin
