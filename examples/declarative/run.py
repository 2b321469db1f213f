"""Runs the pipeline of this folder: `python examples/declarative/run.py`, with options of `spark-pipelines run`.

It makes the topics that are missing, sets the environment that `spark-pipelines` needs when Spark comes from PyPI,
and starts it.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pyspark
import yaml

import quiver

HERE = Path(__file__).resolve().parent
SPEC = HERE / "spark-pipeline.yml"
SPARK = Path(pyspark.__file__).parent


def main() -> NoReturn:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        sys.exit("Spark needs Java 17 or newer (Debian: apt install openjdk-17-jre-headless).")
    settings = yaml.safe_load(SPEC.read_text())["configuration"]
    topics = [settings["spark.quiver.source"], settings["spark.quiver.target"]]
    try:
        make_topics(settings["spark.quiver.bootstrap"], topics)
    except quiver.errors.ConnectionLost as error:
        sys.exit(f"{error}\nStart a broker in another terminal (`make run`), or name one in {SPEC}.")
    command = [f"{SPARK}/bin/spark-pipelines", "run", "--spec", str(SPEC), *sys.argv[1:]]
    os.execve(command[0], command, environment())


def make_topics(broker: str, names: list[str]) -> None:
    with quiver.connect(broker) as q:
        for name in set(names) - set(q.topics.list()):
            q.topics.create(name, partitions=3)


def environment() -> dict[str, str]:
    """This Python for Spark's driver and workers, this Spark, and the settings in conf/."""
    mine = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK),
        "SPARK_CONF_DIR": str(HERE / "conf"),
    }
    return {"SPARK_LOCAL_IP": "127.0.0.1", **os.environ, **mine}


if __name__ == "__main__":
    main()
