"""A remote session of a Spark Connect server: `connect_client.py BOOTSTRAP URL PLACE`.

Reads the topic `remote`, writes it to `remote-copy`, and once more as a stream; then archives it with the job, which
brings a progress bar, into a lake below PLACE, and compares the two.
"""

import json
import sys

import quiver_spark
from quiver_spark.jobs import archive, audit


def main(bootstrap: str, url: str, place: str) -> None:
    spark = quiver_spark.session("remote", master=url)
    broker = {"bootstrap": bootstrap}
    rows = spark.read.format("quiver").options(**broker, topic="remote").load()
    by_key = {bytes(row["key"]).decode(): row["count"] for row in rows.groupBy("key").count().collect()}
    rows.select("key", "value").write.format("quiver").options(**broker, topic="remote-copy").mode("append").save()
    stream = spark.readStream.format("quiver").options(**broker, topic="remote").load().select("key", "value")
    target = {**broker, "topic": "remote-copy", "checkpointLocation": f"{place}/checkpoint"}
    query = stream.writeStream.format("quiver").options(**target).trigger(availableNow=True).start()
    query.awaitTermination()
    try:
        spark.read.format("quiver").options(**broker, topic="no-such-topic").load().count()
    except Exception as error:
        print(str(error).replace("\n", " "), file=sys.stderr)
    source = {**broker, "topic": "remote"}
    archived = archive.run(spark, source, f"{place}/lake", show_progress=True).rows
    is_clean = audit.run(spark, source, lake=f"{place}/lake").is_clean
    print(json.dumps([type(spark).__module__, by_key, archived, is_clean]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
