"""Revenue per minute and country, from a topic of orders into another topic, with Spark Structured Streaming.

`python examples/revenue_per_minute.py` runs until Ctrl-C, and goes on where it was when it is started again. Every
window is written once, when it is over. docs/spark-examples.md explains it.
"""

import argparse
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import quiver
import quiver_spark

ORDER = "id BIGINT, at TIMESTAMP, customer STRING, country STRING, amount DECIMAL(12, 2)"
STATE = Path(__file__).resolve().parent / "state" / "revenue_per_minute"
LOOK_SECONDS = 0.1
PAUSE_LOOKS = 50


def revenue(messages: DataFrame, window: str = "1 minute", lateness: str = "10 seconds") -> DataFrame:
    """Messages of the topic of orders in, messages with the sums of each window and country out.

    A window is over when an order comes that is `lateness` later than its end. Orders that come for a window that is
    over are not counted, nor are values that are no orders.
    """
    order = f.from_json(f.col("value").cast("string"), ORDER)
    orders = messages.select(order.alias("order")).select("order.*").dropna(subset=["at", "country", "amount"])
    windows = orders.withWatermark("at", lateness).groupBy(f.window("at", window), "country")
    sums = windows.agg(f.count("*").alias("orders"), f.sum("amount").alias("revenue"))
    value = f.struct(f.col("window.start"), f.col("window.end"), "country", "orders", "revenue")
    return sums.select(f.col("country").alias("key"), f.to_json(value).alias("value"))


def start(spark: SparkSession, given: argparse.Namespace) -> StreamingQuery:
    """The query: read, transform, write exactly once."""
    messages = (
        spark.readStream.format("quiver").option("bootstrap", given.broker).option("topic", given.source).load()
    )
    writer = (
        revenue(messages, given.window, given.lateness)
        .writeStream.format("quiver")
        .option("bootstrap", given.broker)
        .option("topic", given.target)
        .option("checkpointLocation", given.checkpoint)
    )
    return (writer.trigger(availableNow=True) if given.once else writer.trigger(processingTime=given.every)).start()


def main() -> None:
    given = arguments()
    try:
        make_topics(given.broker, [given.source, given.target])
        print("starting Spark", flush=True)
        spark = quiver_spark.session("revenue-per-minute")
    except quiver.errors.ConnectionLost as error:
        sys.exit(f"{error}\nStart a broker in another terminal (`make run`), or name one with --broker.")
    except quiver.QuiverError as error:
        sys.exit(str(error))
    stopping = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    query = start(spark, given)
    print(f"reading {given.source}, writing {given.target}; Ctrl-C stops it", flush=True)
    try:
        follow(query, stopping)
    except StreamingQueryException:
        sys.exit(
            "The query has failed; the reason is above. Started again, it goes on where it was; "
            f"without {given.checkpoint} it starts again from the beginning."
        )
    finally:
        spark.stop()


def make_topics(broker: str, names: list[str]) -> None:
    with quiver.connect(broker) as q:
        for name in set(names) - set(q.topics.list()):
            q.topics.create(name, partitions=3)


def follow(query: StreamingQuery, stopping: Event) -> None:
    """Prints what the batches do until the query ends or is to stop; raises what it failed with."""
    shown, is_over = -1, False
    while not is_over:
        is_over = stopping.wait(LOOK_SECONDS) or not query.isActive
        for batch in query.recentProgress:
            if batch["batchId"] > shown and (line := batch_line(batch)):
                print(line, flush=True)
            shown = max(shown, batch["batchId"])
    if stopping.is_set():
        stop(query)
    query.awaitTermination()


def stop(query: StreamingQuery) -> None:
    """Between two batches, if there is a pause: one that is cut off is done again by the next start."""
    print("stopping; the next start goes on from here", flush=True)
    for _ in range(PAUSE_LOOKS):
        if not query.status["isTriggerActive"]:
            break
        time.sleep(LOOK_SECONDS)
    query.stop()


def batch_line(batch: Mapping[str, Any]) -> str:
    """What a batch did; nothing if it did nothing."""
    read, written = batch["numInputRows"], batch["sink"]["numOutputRows"]
    late = sum(each["numRowsDroppedByWatermark"] for each in batch["stateOperators"])
    if not read and not written:
        return ""
    line = f"{batch['timestamp']} {read:>9,} orders read, {written:,} sums written"
    return f"{line}, {late:,} too late" if late else line


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Sum up orders by window and country, from a topic into a topic.")
    parser.add_argument("--broker", default="localhost:7481", metavar="HOST:PORT", help="default: %(default)s")
    parser.add_argument("--source", default="orders", metavar="TOPIC", help="default: %(default)s")
    parser.add_argument("--target", default="revenue-per-minute", metavar="TOPIC", help="default: %(default)s")
    parser.add_argument("--window", default="1 minute", help="how long a window is; default: %(default)s")
    parser.add_argument("--lateness", default="10 seconds", help="how late an order may come; default: %(default)s")
    parser.add_argument("--every", default="2 seconds", help="how often a batch begins; default: %(default)s")
    parser.add_argument("--once", action="store_true", help="take what is there and stop")
    parser.add_argument("--checkpoint", default=str(STATE), metavar="DIR", help="default: %(default)s")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
