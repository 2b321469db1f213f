"""Fills a broker with the data of a small shop, for looking at the console: `python scripts/demo_data.py ADDRESS`.

Topics with JSON, MessagePack and large values, groups of both kinds with consumers that work, fail and hold messages,
dead letters, delays, schedules, open transactions and traces. What keeps running (producers, workers, members) ends
with the process.
"""

import contextlib
import random
import sys
import threading
import time
from collections.abc import Iterator

import msgspec

import quiver
from quiver.model.priority import Priority

_CHANCE = random.Random(7)
_CITIES = ("Lisbon", "Oslo", "Porto", "Turin", "Ghent", "Split")
_ERRORS = ("no stock for A-{}", "payment of order {} was refused: card expired", "timeout after 30 s")
STATES = ("new", "paid", "packed", "sent")


def order(number: int) -> dict[str, object]:
    return {
        "id": number,
        "customer": f"c-{number % 97}",
        "total": round(_CHANCE.uniform(5, 900), 2),
        "state": _CHANCE.choice(STATES),
        "address": {"city": _CHANCE.choice(_CITIES), "zip": f"{_CHANCE.randrange(10000):04}"},
        "items": [{"sku": f"A-{_CHANCE.randrange(100)}", "count": _CHANCE.randrange(1, 5)}],
    }


def topics(q: quiver.Client) -> None:
    q.topics.create("orders", partitions=6, retention="7d", exist_ok=True)
    q.topics.create("payments", partitions=4, max_attempts=3, backoff="1s", visibility="2m", exist_ok=True)
    q.topics.create("emails", partitions=2, max_attempts=2, backoff="100ms", exist_ok=True)
    q.topics.create("inventory", partitions=3, cleanup="compact", exist_ok=True)
    q.topics.create("images", partitions=1, exist_ok=True)
    q.topics.create("metrics-raw", partitions=8, durability="interval", retention="24h", exist_ok=True)
    for number in range(12):
        q.topics.create(f"tenant-{number:02}-events", partitions=1, exist_ok=True)


def stored(q: quiver.Client) -> None:
    with q.producer("orders") as out:
        for number in range(20_000):
            out.send(msgspec.json.encode(order(number)), key=f"c-{number % 97}", headers={"source": "web"})
    with q.producer("inventory") as out:
        for number in range(3_000):
            out.send(msgspec.msgpack.encode({"sku": f"A-{number % 100}", "stock": number}), key=f"A-{number % 100}")
    q.publish("images", _CHANCE.randbytes(900_000), key="logo.png", headers={"content-type": "image/png"})
    q.publish("images", b"x" * 1_000_000, key="one-line.txt")
    q.publish("images", '<img src=x onerror="alert(1)">\u202e gnp.exe', key="<b>hostile</b>")
    for number in range(400):
        q.publish("payments", order(number), key=f"c-{number % 20}", priority=Priority(number % 5))


def late(q: quiver.Client) -> None:
    for number in range(120):
        q.publish("emails", {"to": f"c-{number}@example.com", "kind": "reminder"}, delay=f"{3 + number * 7}m")
    q.schedules.add("0 3 * * *", "inventory", {"job": "recount"}, name="nightly-recount", timezone="Europe/Berlin")
    q.schedules.add("*/5 * * * *", "emails", {"kind": "digest"}, name="digest")
    q.schedules.add("@every 20s", "metrics-raw", {"kind": "heartbeat"}, name="heartbeat")


def dead(q: quiver.Client) -> None:
    for number in range(160):
        q.publish("emails", {"to": f"c-{number}@example.com", "order": number}, key=f"c-{number}")
    seen = 0
    with q.work("emails", group="mailer") as jobs:
        for job in jobs:
            seen += 1
            if seen % 4 == 0:
                job.reject(_ERRORS[seen % 3].format(seen % 50))
            else:
                job.ack()
            if seen >= 160:
                break


def traced(address: str) -> None:
    with quiver.connect(address, tracing=1) as q:
        for number in range(60):
            q.publish("payments", order(number), key=f"c-{number % 20}")


@contextlib.contextmanager
def running(address: str) -> Iterator[None]:
    """Producers, workers and members, until the end of the block."""
    stop = threading.Event()
    works = (_produce, _pay, _hold, _read, _read, _transact)
    threads = [threading.Thread(target=work, args=(address, stop), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)


def _produce(address: str, stop: threading.Event) -> None:
    with quiver.connect(address) as q, q.producer("orders") as orders, q.producer("metrics-raw") as metrics:
        number = 20_000
        while not stop.wait(0.05):
            for _ in range(_CHANCE.randrange(5, 25)):
                number += 1
                orders.send(msgspec.json.encode(order(number)), key=f"c-{number % 97}", headers={"source": "app"})
            metrics.send_many(
                [b'{"cpu": 0.5, "host": "web-%d"}' % each for each in range(_CHANCE.randrange(50, 150))]
            )


def _pay(address: str, stop: threading.Event) -> None:
    with quiver.connect(address) as q, q.work("payments", group="billing", ordering="key", max_messages=5) as jobs:
        for job in jobs:
            if stop.wait(0.15):
                return
            number = job.offset
            if number % 9 == 0:
                job.nack(error=_ERRORS[1].format(number))
            else:
                job.ack()


def _hold(address: str, stop: threading.Event) -> None:
    """Holds what it got, so that keys wait."""
    with (
        quiver.connect(address) as q,
        q.work("payments", group="fraud-check", ordering="key", max_messages=12) as jobs,
    ):
        for batch in jobs.batches():
            stop.wait()
            batch.nack(error="stopped")
            return


def _read(address: str, stop: threading.Event) -> None:
    with quiver.connect(address) as q, q.stream("orders", group="warehouse") as stream:
        for _ in stream:
            if stop.wait(0.002):
                return


def _transact(address: str, stop: threading.Event) -> None:
    with quiver.connect(address) as q, contextlib.suppress(quiver.QuiverError):
        for number in range(5):
            with q.transaction() as transaction:
                transaction.publish("payments", order(number))
        with q.transaction("settlement-1") as transaction:
            transaction.publish("payments", order(1))
            transaction.publish("orders", order(2))
            stop.wait()


def fill(address: str) -> None:
    with quiver.connect(address) as q:
        topics(q)
        stored(q)
        late(q)
        dead(q)
    traced(address)


def main() -> None:
    address = sys.argv[1] if len(sys.argv) > 1 else "localhost"
    fill(address)
    with running(address):
        while True:
            time.sleep(1)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
