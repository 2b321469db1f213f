"""Where `make bench-peers` puts Kafka, and how Java is called with it."""

import os
import subprocess
from pathlib import Path

from benchmarks.servers.presence import absence, find_program

SOURCE = Path(__file__).parent / "KafkaRoles.java"


def jars_directory() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "quiver-bench" / "kafka"


def source_directory() -> Path:
    """Of Spark's own Kafka source."""
    return jars_directory().with_name("kafka-source")


def source_absence() -> str | None:
    """Why Spark's Kafka source cannot be measured here, or None."""
    if not list(source_directory().glob("spark-sql-kafka-*.jar")):
        return _no_jars(source_directory())
    return _server_absence()


def kafka_version() -> str | None:
    """Of the jars that are there."""
    found = sorted(jars_directory().glob("kafka_2.13-*.jar"))
    return found[-1].stem.partition("-")[2] if found else None


def kafka_absence() -> str | None:
    """Why Kafka cannot be measured here, or None."""
    return _server_absence() or absence(module="confluent_kafka")


def _server_absence() -> str | None:
    for program in ("java", "javac"):
        if find_program(program) is None:
            return f"{program} is not installed (a JDK of version 17 or newer is needed)"
    return _no_jars(jars_directory()) if kafka_version() is None else None


def _no_jars(directory: Path) -> str:
    return f"no jars in {directory} (make bench-peers puts them there when Maven is installed)"


def java_command(*arguments: str, classes: Path | None = None) -> list[str]:
    """`java` with Kafka's jars and, if given, our classes."""
    path = [str(jars_directory() / "*")] + ([str(classes)] if classes else [])
    options, rest = _split(arguments)
    return [str(find_program("java")), *options, "-cp", os.pathsep.join(path), *rest]


def compile_roles(directory: Path) -> Path:
    """Compiles the roles on the Java client; returns the folder of the classes."""
    command = ["-cp", str(jars_directory() / "*"), "-d", str(directory), str(SOURCE)]
    subprocess.run([str(find_program("javac")), *command], check=True)
    return directory


def _split(arguments: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Options of the virtual machine, and the class with its own."""
    options = [argument for argument in arguments if argument.startswith("-X")]
    return options, [argument for argument in arguments if not argument.startswith("-X")]
