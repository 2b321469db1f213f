"""Work that goes on for the whole run, as fast as the broker takes it: streams, jobs, and Queen's interface."""

import itertools
import time
from typing import Any

import quiver
from benchmarks.payload import Payload
from benchmarks.roles import Role, Watch
from benchmarks.servers.broker import Broker
from benchmarks.soak.throttle import Throttle
from benchmarks.workloads.queues.queen import Caller

CHUNK, CHUNKS = 5_000, 8
JOBS, BATCH = 2_000, 500
PARTITIONS = 10
LIMITS: Any = {"segment_bytes": "4MiB", "retention_bytes": "16MiB"}
"""Of each partition: a run of minutes reaches them."""
PAYLOAD = Payload(100)


def load_roles(broker: Broker, seconds: float, share: float) -> dict[str, Role]:
    return {
        "stream": Role(_stream, (broker.address, seconds, share)),
        "jobs": Role(_jobs, (broker.address, seconds, share)),
        "queen": Role(_queen, (broker.address, broker.http_port, seconds, share)),
    }


def _stream(address: str, seconds: float, share: float, watch: Watch) -> int:
    """Everything that is published is read before more is."""
    bodies = itertools.cycle(PAYLOAD.different(CHUNK * CHUNKS))
    sent = received = 0
    with quiver.connect(address) as client:
        client.topics.create("stream", partitions=4, **LIMITS)
        with client.producer("stream") as producer, client.read("stream", start="earliest") as reader:
            batches: Any = reader.batches()
            watch.start()
            throttle, until = Throttle(share), time.monotonic() + seconds
            while time.monotonic() < until:
                for _ in range(CHUNKS):
                    producer.send_many(list(itertools.islice(bodies, CHUNK)))
                producer.flush()
                sent += CHUNK * CHUNKS
                while received < sent:
                    received += next(batches).num_rows
                throttle.pause()
    return received


def _jobs(address: str, seconds: float, share: float, watch: Watch) -> int:
    """Jobs with keys; one batch in ten fails and comes again."""
    bodies = PAYLOAD.different(JOBS)
    keys = [b"key-%d" % (number % 100) for number in range(JOBS)]
    done = taken = 0
    with quiver.connect(address) as client:
        client.topics.create("jobs", partitions=2, backoff=0, **LIMITS)
        with client.producer("jobs") as producer, client.work("jobs", group="soak", max_messages=BATCH) as work:
            batches: Any = work.batches()
            watch.start()
            throttle, until = Throttle(share), time.monotonic() + seconds
            while time.monotonic() < until:
                producer.send_many(bodies, keys=keys)
                producer.flush()
                left = JOBS
                while left:
                    batch, taken = next(batches), taken + 1
                    if taken % 10:
                        left -= len(batch)
                        batch.ack()
                    else:
                        batch.nack(counted=False)
                done += JOBS
                throttle.pause()
    return done


def _queen(address: str, http_port: int, seconds: float, share: float, watch: Watch) -> int:
    caller, done = Caller(http_port), 0
    caller.call("POST", "/configure", {"queue": "queen", "options": {"dedupWindowSeconds": 0}})
    with quiver.connect(address) as client:
        client.topics.alter("queen", **LIMITS)
    caller.close()
    watch.start()
    caller = Caller(http_port)  # the broker closes connections on which nothing happens for a while
    throttle, until = Throttle(share), time.monotonic() + seconds
    while time.monotonic() < until:
        caller.push("queen", [f"partition-{number % PARTITIONS}" for number in range(BATCH)])
        done += caller.drain("queen", BATCH)
        caller.close()  # the broker does so when nothing happens for a while; the next request opens it again
        throttle.pause()
    return done
