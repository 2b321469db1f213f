"""Orders of a small shop, so that the other examples have something to read: `python examples/generate_orders.py`.

It makes the topic if there is none. An empty one gets the orders of the last ten minutes; then orders come as they
would in life, until Ctrl-C or `--count` of them.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

import quiver

COUNTRIES = ("AT", "DE", "FR", "NL")


def main() -> None:
    given = arguments()
    try:
        with quiver.connect(given.broker) as q:
            publish(q, given)
    except KeyboardInterrupt:
        print("\nstopped")
    except quiver.errors.ConnectionLost as error:
        sys.exit(f"{error}\nStart a broker in another terminal (`make run`), or name one with --broker.")


def publish(q: quiver.Client, given: argparse.Namespace) -> None:
    if given.topic not in q.topics.list():
        q.topics.create(given.topic, partitions=3)
    is_empty = not any(q.offsets(given.topic).values())
    with q.producer(given.topic) as out:
        if is_empty:
            for order in past_orders(datetime.now(UTC), given.minutes, given.rate):
                out.send(order, key=str(order["customer"]))
            print(f"published the orders of the last {given.minutes:g} minutes")
        print(f"publishing {given.rate:g} orders a second to {given.topic}; Ctrl-C stops it", flush=True)
        for _ in range(given.count) if given.count is not None else count():
            order = new_order(datetime.now(UTC))
            out.send(order, key=str(order["customer"]))
            time.sleep(1 / given.rate)


def past_orders(now: datetime, minutes: float, rate: float) -> Iterator[dict[str, object]]:
    """The orders of the minutes before, oldest first."""
    total = int(minutes * 60 * rate)
    return (new_order(now - timedelta(seconds=(total - n) / rate)) for n in range(total))


def new_order(at: datetime) -> dict[str, object]:
    return {
        "id": random.getrandbits(40),
        "at": at.isoformat(timespec="milliseconds"),
        "customer": f"customer-{random.randrange(500)}",
        "country": random.choice(COUNTRIES),
        "amount": round(random.lognormvariate(3.5, 0.8), 2),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Publish made-up orders.")
    parser.add_argument("--broker", default="localhost:7481", metavar="HOST:PORT", help="default: %(default)s")
    parser.add_argument("--topic", default="orders", help="default: %(default)s")
    parser.add_argument("--rate", type=float, default=20, help="orders a second; default: %(default)s")
    parser.add_argument(
        "--minutes", type=float, default=10, help="of the past, for an empty topic; default: %(default)s"
    )
    parser.add_argument("--count", type=int, help="stop after this many orders; default: go on until Ctrl-C")
    return parser.parse_args()


if __name__ == "__main__":
    main()
