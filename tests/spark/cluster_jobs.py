"""A driver that runs jobs on a cluster, one after the other in one session.

`cluster_jobs.py master python bootstrap lake place`: replays the topic `big` of the lake into `again`, copies `keyed`
to `copied` by a query, and puts the last values of `keyed` into a lake of their own. Prints JSON.
"""

import json
import sys
from pathlib import Path

import quiver_spark
from quiver_spark.jobs import compact, replay


def main(master: str, python: str, bootstrap: str, lake: str, place: str) -> None:
    settings = {"spark.pyspark.python": python, "spark.executor.memory": "600m"}
    spark = quiver_spark.session("cluster-jobs", master, **settings)
    told = {"shuffle": spark.conf.get("spark.sql.shuffle.partitions"), "host": spark.conf.get("spark.driver.host")}
    replayed = replay.run(spark, {"topic": "big", "bootstrap": bootstrap}, "again", lake=lake)
    keyed = {"topic": "keyed", "bootstrap": bootstrap}
    rows = spark.readStream.format("quiver").options(**keyed).load().select("key", "value")
    copied = {"topic": "copied", "bootstrap": bootstrap, "checkpointLocation": str(Path(place) / "checkpoint")}
    rows.writeStream.format("quiver").options(**copied).trigger(availableNow=True).start().awaitTermination()
    last = compact.run(spark, keyed, lake=Path(place) / "last")
    print(json.dumps({**told, "replayed": replayed.rows, "last": last.rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
