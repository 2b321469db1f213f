"""A program that reads a topic and stops early: read_driver.py ADDRESS TOPIC."""

import sys

import quiver_spark


def main(address: str, topic: str) -> None:
    spark = quiver_spark.session(master="local[1]")
    frame = spark.read.format("quiver").option("bootstrap", address).option("topic", topic).load()
    print(len(frame.take(3)), frame.limit(2).count(), len(frame.head(1)))
    frame.show(1)
    try:
        spark.sql("SELECT * FROM no_such_table")
    except Exception as error:
        print(str(error).partition("\n")[0])
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
