"""A driver of its own with a copy into a topic and one into Parquet files, for a test that kills it.

`query_driver.py bootstrap source target place`
"""

import sys
from pathlib import Path

import quiver_spark
from spark.sink.topic_copies import Copy


def main(bootstrap: str, source: str, target: str, place: str) -> None:
    spark = quiver_spark.session("query-driver", master="local[2]")
    copies = (
        Copy(bootstrap, source, Path(place) / "topic", target),
        Copy(bootstrap, source, Path(place) / "parquet"),
    )
    for query in [copy.start(spark) for copy in copies]:
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
