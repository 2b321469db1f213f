"""The support bundle: what somebody needs to understand a broker, in one file, without content of messages."""

import io
import platform
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import quiver
from quiver.app.config import shown_values
from quiver.cli.connection import connect
from quiver.cli.doctor.examination import Examination
from quiver.cli.doctor.finding import Finding
from quiver.cli.http_source import HttpSource
from quiver.model.errors import GroupNotFound, InvalidRequest, QuiverError, TopicNotFound
from quiver.model.times import format_time
from quiver.telemetry.redaction import scrubbed, without_error_texts, without_secrets

_ROUTES = {
    "node.json": "/node",
    "readyz.json": "/readyz?verbose=true",
    "version.json": "/version",
    "stats.json": "/stats",
    "overview.json": "/overview",
    "reliability.json": "/reliability/stats",
    "priority.json": "/priority/stats",
    "delays.json": "/delay/stats",
    "rebalances.json": "/rebalance/stats",
    "transactions.json": "/transactions/stats",
}
_LOGS = "/logs?limit=1000"
_PACKAGES = ("pyarrow", "numpy", "msgspec", "google-crc32c", "uvloop", "httptools", "zstandard", "rich", "typer")
_README = """\
Support bundle of a Quiver broker, made by `quiver doctor --bundle`.

It has settings (secrets as stars), versions, health, counters, names and settings of topics and groups, log lines
(of errors their type, without their text) and the names and sizes of files. It has no values, keys and headers of
messages, and no texts of errors that consumers reported. Names of topics, groups, clients and hosts are in it.

"""

Entry = tuple[str, bytes]


class Bundle(NamedTuple):
    path: Path
    entries: int
    size_bytes: int


def write_bundle(path: Path, examination: Examination, findings: Sequence[Finding]) -> Bundle:
    """Writes a new file that only its owner can read. What cannot be asked is named in README.txt."""
    missing: list[str] = []
    entries = list(_entries(examination, findings, missing))
    readme = _README + "".join(f"left out: {line}\n" for line in missing)
    entries.insert(0, ("README.txt", readme.encode()))
    now_ms = examination.clock.now_ms()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in entries:
            info = tarfile.TarInfo(f"quiver-support/{name}")
            info.size, info.mtime, info.mode = len(data), now_ms // 1000, 0o600
            archive.addfile(info, io.BytesIO(data))
    _write_new(path, packed.getvalue())
    return Bundle(path, len(entries), packed.getbuffer().nbytes)


def _write_new(path: Path, data: bytes) -> None:
    try:
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(data)
    except FileExistsError:
        raise InvalidRequest(problem=f"{path} exists already; name a new file") from None
    except OSError as error:
        path.unlink(missing_ok=True)
        raise InvalidRequest(problem=f"cannot write {path}: {error.strerror}") from None


def _entries(examination: Examination, findings: Sequence[Finding], missing: list[str]) -> Iterator[Entry]:
    yield "doctor.json", _json({"findings": list(findings)})
    yield "versions.json", _json(_versions())
    if (loaded := examination.loaded) is not None:
        values = shown_values(loaded.config)
        rows = [
            {"setting": name, "shown": value, "origin": loaded.origins[name]}
            for name, value in scrubbed(values).items()
        ]
        yield "configuration.json", _json(rows)
    if examination.directory is not None:
        listing = "".join(
            f"{file.size_bytes:>14} {format_time(file.modified_ms)} {file.path}\n"
            for file in examination.directory.files()
        )
        yield "files.txt", listing.encode(errors="replace")
    if examination.broker is None:
        missing.append("everything of the broker: none was reached")
        return
    if (source := examination.broker.source) is not None:
        yield from _from_http(source, missing)
    else:
        missing.append("health, counters and log lines of the broker: its HTTP port was not reached")
    yield from _from_client(examination.address, missing)


def _from_http(source: HttpSource, missing: list[str]) -> Iterator[Entry]:
    for name, route in _ROUTES.items():
        if (body := _get(source, route, missing)) is not None:
            yield f"broker/{name}", _json(scrubbed(msgspec.json.decode(body)))
    if (body := _get(source, "/metrics", missing, accept="text/plain")) is not None:
        yield "broker/metrics.txt", body
    if (body := _get(source, _LOGS, missing)) is not None:
        lines = [_log_line(line) for line in msgspec.json.decode(body)["lines"]]
        yield "broker/log.jsonl", b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def _get(source: HttpSource, route: str, missing: list[str], accept: str = "application/json") -> bytes | None:
    try:
        response = source.get(route, accept=accept)
    except QuiverError as error:
        missing.append(f"{route}: {error.message}")
        return None
    if response.status in (200, 503):  # /readyz says with 503 what is wrong
        return response.body
    missing.append(f"{route}: status {response.status}")
    return None


def _log_line(line: dict[str, str]) -> dict[str, str]:
    shown = {name: line[name] for name in ("time", "level", "logger")}
    shown["message"] = without_secrets(line["message"])
    if "traceback" in line:
        shown["traceback"] = without_error_texts(line["traceback"])
    return shown


def _from_client(address: str, missing: list[str]) -> Iterator[Entry]:
    parts: dict[str, Callable[[Any], Any]] = {"topics.json": _topics, "groups.json": _groups, "queues.json": _queues}
    try:
        with connect(address) as q:
            for name, describe in parts.items():
                yield f"broker/{name}", _json(scrubbed(msgspec.to_builtins(describe(q))))
    except QuiverError as error:
        missing.append(f"topics, groups or queues: {error.message}")


def _topics(q: "quiver.Client") -> list[Any]:
    found = []
    for name in q.topics.list():
        with suppress(TopicNotFound):  # deleted since it was listed
            found.append(msgspec.structs.asdict(q.topics.describe(name)))
    return found


def _groups(q: "quiver.Client") -> list[Any]:
    found = []
    for summary in q.groups.list():
        with suppress(GroupNotFound):
            group = q.groups.describe(summary.id)
            shown = msgspec.structs.asdict(summary) | msgspec.structs.asdict(group)
            members = [msgspec.structs.asdict(member) for member in group.members]
            found.append(
                shown | {"members": members, "partitions": list(map(msgspec.structs.asdict, group.partitions))}
            )
    return found


def _queues(q: "quiver.Client") -> list[Any]:
    found = []
    for topic in q.topics.list():
        with suppress(TopicNotFound):
            found += [{"topic": topic} | msgspec.structs.asdict(depth) for depth in q.queues.depths(topic)]
    return found


def _versions() -> dict[str, Any]:
    packages = {}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "quiver": quiver.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
    }


def _json(document: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
