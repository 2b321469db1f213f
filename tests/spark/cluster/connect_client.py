"""A remote session of a Spark Connect server: `connect_client.py BOOTSTRAP URL PLACE`.

Reads the topic `remote`, writes it to `remote-copy`, and once more as a stream.
"""

import json
import sys

import quiver_spark


def main(bootstrap: str, url: str, place: str) -> None:
    spark = quiver_spark.session("remote", master=url)
    broker = {"bootstrap": bootstrap}
    rows = spark.read.format("quiver").options(**broker, topic="remote").load()
    by_key = {bytes(row["key"]).decode(): row["count"] for row in rows.groupBy("key").count().collect()}
    rows.select("key", "value").write.format("quiver").options(**broker, topic="remote-copy").mode("append").save()
    stream = spark.readStream.format("quiver").options(**broker, topic="remote").load().select("key", "value")
    target = {**broker, "topic": "remote-copy", "checkpointLocation": place}
    query = stream.writeStream.format("quiver").options(**target).trigger(availableNow=True).start()
    query.awaitTermination()
    try:
        spark.read.format("quiver").options(**broker, topic="no-such-topic").load().count()
    except Exception as error:
        print(str(error).replace("\n", " "), file=sys.stderr)
    print(json.dumps([type(spark).__module__, by_key]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
