"""A topic of orders as a table, sums of it as another table, and the large orders into a topic.

`spark-pipelines run` imports this file, finds out what depends on what, and brings everything up to date.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
BROKER = {"bootstrap": str(spark.conf.get("spark.quiver.bootstrap"))}
ORDER = "id BIGINT, at TIMESTAMP, customer STRING, country STRING, amount DECIMAL(12, 2)"


@dp.temporary_view
def arrivals() -> DataFrame:
    """The topic as a stream of orders. Every flow that reads it has a position of its own; nothing is stored."""
    topic = spark.conf.get("spark.quiver.source")
    messages = spark.readStream.format("quiver").options(**BROKER, topic=topic).load()
    order = f.from_json(f.col("value").cast("string"), ORDER)
    return messages.select(order.alias("order")).select("order.*").dropna(subset=["at", "country", "amount"])


@dp.table
def orders() -> DataFrame:
    """Every order once: a run adds those that have come since the last one."""
    return spark.readStream.table("arrivals")


@dp.materialized_view
def revenue_by_country() -> DataFrame:
    """Computed again by every run, from the whole table."""
    sums = f.count("*").alias("orders"), f.sum("amount").alias("revenue")
    return spark.read.table("orders").groupBy("country").agg(*sums)


dp.create_sink("large_orders", "quiver", {**BROKER, "topic": str(spark.conf.get("spark.quiver.target"))})


@dp.append_flow(target="large_orders")
def find_large_orders() -> DataFrame:
    """Each large order goes into the topic once: a run writes those that have come since the last one."""
    large = spark.readStream.table("arrivals").where("amount >= 100")
    return large.select(f.col("customer").alias("key"), f.to_json(f.struct("*")).alias("value"))
