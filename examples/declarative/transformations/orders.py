"""Orders of a topic as a table, sums of it as a view, and the large ones into another topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
BOOTSTRAP = spark.conf.get("quiver.bootstrap")
ORDER = "id BIGINT, at TIMESTAMP, customer STRING, country STRING, amount DECIMAL(12, 2)"


@dp.table
def orders() -> DataFrame:
    """Every order, once: a run adds those that have come since the last."""
    messages = spark.readStream.format("quiver").option("bootstrap", BOOTSTRAP)
    order = f.from_json(f.col("value").cast("string"), ORDER)
    rows = messages.option("topic", spark.conf.get("quiver.source")).load().select(order.alias("order"))
    return rows.select("order.*").dropna(subset=["at", "country", "amount"])


@dp.materialized_view
def revenue_by_country() -> DataFrame:
    """Computed anew by every run."""
    sums = f.count("*").alias("orders"), f.sum("amount").alias("revenue")
    return spark.read.table("orders").groupBy("country").agg(*sums)


dp.create_sink("large_orders", "quiver", {"bootstrap": BOOTSTRAP, "topic": spark.conf.get("quiver.target")})


@dp.append_flow(target="large_orders")
def find_large_orders() -> DataFrame:
    """Each large order goes into the topic once."""
    large = spark.readStream.table("orders").where("amount >= 100")
    return large.select(f.col("customer").alias("key"), f.to_json(f.struct("*")).alias("value"))
