"""A driver that runs jobs on a cluster, one after the other in one session.

`cluster_jobs.py bootstrap place archive...`: runs `quiver pipeline archive...` as its command line says. Then, from
`keyed` to `copied`, a query, and from `keyed` to `last` the job compact, both with all rows by the sink.
"""

import json
import sys

import quiver_spark
from quiver.cli.main import run
from quiver_spark.jobs import compact


def main(bootstrap: str, place: str, *words: str) -> int:
    try:
        status = run(["pipeline", *words])
    except SystemExit as end:  # a command that is done
        status = end.code
    if status:
        return 1
    spark = quiver_spark.session()
    keyed = {"topic": "keyed", "bootstrap": bootstrap}
    rows = spark.readStream.format("quiver").options(**keyed).load().select("key", "value")
    copied = {"topic": "copied", "bootstrap": bootstrap, "checkpointLocation": f"{place}/checkpoint"}
    rows.writeStream.format("quiver").options(**copied).trigger(availableNow=True).start().awaitTermination()
    compact.run(spark, keyed, to="last")
    names = ("spark.master", "spark.driver.host", "spark.sql.shuffle.partitions")
    print(json.dumps([spark.conf.get(name) for name in names]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
