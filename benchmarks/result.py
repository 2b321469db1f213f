"""The file a run leaves: what was measured, on what, how, with every repetition."""

from pathlib import Path
from typing import Any

import msgspec

from benchmarks.goals import Verdict
from benchmarks.measurement import Measurement, Metrics

RESULTS = Path(__file__).resolve().parent / "results"
METHOD = (
    "Client and broker on the same machine. Every producer and consumer is a process of its own (Python, or Java "
    "for Kafka's own client); they connect first and start together; the time runs until the last message is "
    "acknowledged or received. Each subject starts with an empty stream or queue for each repetition, and the "
    "system's dirty pages are written out before. Bodies differ from each other: random bytes from a pool of 64 "
    "MiB, or JSON. Each subject does a little of the work before anything is timed, and clients import what they "
    "need before. Peers use their usual client in the fastest way we know, with batches and acks in windows; "
    "consumers of peers acknowledge or commit what they read, readers of Quiver keep their own position. Peers "
    "and the quiver-single subjects make an object of every message; the others read Arrow batches. The latency "
    "is that of one producer that waits for each ack and paces itself to 1,000 messages a second, beside one "
    "consumer that follows; disk_* is the same rate of appends and syncs without a broker. foreign_cores and "
    "stolen_cores say how much of the machine others used during a repetition, calibration_* how fast the "
    "processor was: the processor time of fixed work before and after it."
)


class Result(msgspec.Struct, kw_only=True):
    started: str
    seconds: float
    scale: str
    repetitions: int
    command: list[str]
    machine: dict[str, Any]
    source: dict[str, Any]
    versions: dict[str, str]
    subjects: dict[str, dict[str, str]]
    """Of each: version, client and what an ack means."""
    peers: list[str]
    limits: dict[str, Metrics]
    measurements: list[Measurement]
    goals: list[Verdict]
    skipped: dict[str, str]
    failed: dict[str, str]
    durations: dict[str, float] = {}
    """Seconds of each piece of work."""
    method: str = METHOD


def write_result(result: Result, directory: Path = RESULTS) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    stamp = result.started.replace(":", "").replace("-", "")[:13]
    path = directory / f"{stamp}-{result.scale}-{str(result.source['commit'])[:8]}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return path


def read_result(path: Path) -> Result:
    return msgspec.json.decode(path.read_bytes(), type=Result)
