"""Runs a declarative pipeline: makes its topics, and starts `spark-pipelines` with the environment that it needs."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

import quiver
from quiver.model.errors import InvalidRequest
from quiver_spark.options.option_map import DEFAULT_BOOTSTRAP
from quiver_spark.runtime.session import find_java

SPEC = "spark-pipeline.yml"
TOPICS = "spark.quiver.topics."
_BOOTSTRAP = "spark.quiver.bootstrap"
_PARTITIONS = 3


def run_pipeline(place: Path, words: Sequence[str] = (), *, dry_run: bool = False) -> int:
    """Brings the pipeline in a directory up to date; `words` are options of `spark-pipelines run`.

    Topics that its configuration names and that are missing are made, since a sink makes none. A dry run checks the
    flows and writes nothing. Returns the exit status. Raises InvalidRequest if it is no project.
    """
    spec = place.absolute() / SPEC
    settings = _settings(spec)
    find_java()
    if not dry_run:
        make_topics(settings)
    spark = _spark_home()
    verb = "dry-run" if dry_run else "run"
    command = [f"{spark}/bin/spark-pipelines", verb, "--spec", str(spec), *words]
    return subprocess.run(command, env=environment(place.absolute(), spark), cwd=place).returncode


def make_topics(settings: Mapping[str, str]) -> list[str]:
    """Makes the topics of the configuration that are missing; returns their names."""
    wanted = [str(value) for name, value in settings.items() if name.startswith(TOPICS)]
    with quiver.connect(settings.get(_BOOTSTRAP, DEFAULT_BOOTSTRAP)) as client:
        missing = [name for name in dict.fromkeys(wanted) if name not in client.topics.list()]
        for name in missing:
            client.topics.create(name, partitions=_PARTITIONS)
    return missing


def environment(place: Path, spark: Path) -> dict[str, str]:
    """This Python for Spark's driver and workers, this Spark, the settings in conf/, and the project's modules."""
    paths = [str(place), os.environ.get("PYTHONPATH", "")]
    mine = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "SPARK_HOME": str(spark),
        "SPARK_CONF_DIR": str(place / "conf"),
    }
    return {"SPARK_LOCAL_IP": "127.0.0.1", **os.environ, **mine}


def _settings(spec: Path) -> dict[str, str]:
    try:
        text = spec.read_text()
    except OSError:
        raise InvalidRequest(
            problem=f"there is no {SPEC} in {spec.parent}: quiver pipeline init NAME writes a project"
        ) from None
    try:
        found = yaml.safe_load(text)["configuration"]
        return {str(name): str(value) for name, value in found.items()}
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        raise InvalidRequest(problem=f"{spec} is not the YAML of a pipeline with a configuration") from None


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent
