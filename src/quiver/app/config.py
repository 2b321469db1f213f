"""The broker's configuration: flags over environment over a TOML file over defaults.

`load_config` reads all sources, remembers where each value came from, and reports every problem at once.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from quiver.app.config_values import (
    Parse,
    flag,
    one_of,
    optional_count,
    optional_link_versions,
    optional_node_id,
    optional_port,
    optional_text,
    port,
    size_bytes,
    storage_address,
    text,
    texts,
    whole,
    worker_count,
)
from quiver.links.versions import SPOKEN, LinkVersions, parse_versions
from quiver.model.errors import InvalidSetting, QuiverError
from quiver.model.limits import KIB, MIB, Limits
from quiver.model.settings import duration
from quiver.model.times import format_duration, parse_duration_ms
from quiver.model.topic import SETTING_NAMES, TopicConfig
from quiver.storage.postgres.database.address import masked_address
from quiver.system.memory_budget import DEFAULT_BYTES
from quiver.telemetry.redaction import MASKED

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker runs with."""

    data_dir: Path = Path("data")
    storage: str | None = None
    read_from: str | None = None
    buffer_dir: Path | None = None
    buffer_bytes: int = 1024 * MIB
    host: str = "127.0.0.1"
    advertise: str | None = None
    allowed_host: tuple[str, ...] = ()
    http_port: int = 7480
    native_port: int = 7481
    queen_port: int | None = None
    queen_origin: tuple[str, ...] = ()
    auto_create: bool = False
    max_message_bytes: int = MIB
    max_frame_bytes: int = 16 * MIB
    max_request_bytes: int = 32 * MIB
    max_fetch_bytes: int = 64 * MIB
    partition_queue_bytes: int = 64 * MIB
    min_free_bytes: int = 256 * MIB
    max_open_files: int = 0
    sync_threads: int = 8
    workers: int = 1
    node_id: str | None = None
    cluster_workers: int | None = None
    link_port: int = 0
    link_versions: str | None = None
    cluster: str | None = None
    etcd: str | None = None
    rack: str | None = None
    replication_factor: int | None = None
    min_isr: int | None = None
    catch_up_bytes_per_second: int = 0
    transaction_max_ms: int = 15 * 60_000
    delivery_history_ms: int = 7 * 86_400_000
    delivery_history_bytes: int = 16 * MIB
    memory_budget: int = DEFAULT_BYTES
    slow_client_timeout_ms: int = 30_000
    slow_client_rate: int = KIB
    shutdown_timeout_ms: int = 10_000
    log_requests: bool = False
    log_level: str = "info"
    log_format: str = "text"
    topic_defaults: TopicConfig = TopicConfig()
    """The defaults for settings of new topics."""

    @property
    def spoken_link_versions(self) -> LinkVersions:
        return SPOKEN if self.link_versions is None else parse_versions(self.link_versions)

    @property
    def limits(self) -> Limits:
        return Limits(
            message_bytes=self.max_message_bytes,
            frame_bytes=self.max_frame_bytes,
            request_bytes=self.max_request_bytes,
            fetch_bytes=self.max_fetch_bytes,
            partition_queue_bytes=self.partition_queue_bytes,
        )


class Setting(msgspec.Struct, frozen=True):
    """One row of the configuration: how it is named, read and explained."""

    name: str
    parse: Parse
    help: str
    field: str = ""
    is_secret: bool = False
    """Shown as stars, wherever it is shown."""
    mask: Callable[[str], str] | None = None
    """Shown through this, wherever it is shown: a part of it is secret."""

    @property
    def environment(self) -> str:
        return f"QUIVER_{self.name.upper()}"

    @property
    def attribute(self) -> str:
        return self.field or self.name


SETTINGS: tuple[Setting, ...] = (
    Setting("data_dir", lambda value: Path(text(value)).expanduser(), "Where the broker keeps its data."),
    Setting("storage", storage_address, "A database instead of the data directory: postgresql://user@host/db?schema=x.",
            mask=masked_address),
    Setting("read_from", storage_address, "A standby of that database, for reads of old messages.",
            mask=masked_address),
    Setting("buffer_dir", lambda value: Path(text(value)).expanduser(),
            "A directory for publishes while that database is away."),
    Setting("buffer_bytes", size_bytes(MIB, 2**50), "The most that is kept there."),
    Setting("host", text, "The address to listen on; 0.0.0.0 or :: for every interface."),
    Setting("advertise", optional_text, "The host name clients use, when it differs from --host (containers)."),
    Setting("allowed_host", texts, "A host name by which HTTP clients may call the broker; may be repeated."),
    Setting("http_port", port, "The HTTP port; 0 picks a free one."),
    Setting("native_port", port, "The port of the native protocol; 0 picks a free one."),
    Setting("queen_port", optional_port, "A port for Queen's interface alone; 0 picks a free one."),
    Setting("queen_origin", texts, "An origin whose pages may use that port, or *; may be repeated."),
    Setting("auto_create", flag, "Create a topic when something is published to a name that does not exist."),
    Setting("max_message_bytes", size_bytes(KIB, 64 * MIB), "The largest message."),
    Setting("max_frame_bytes", size_bytes(64 * KIB, 1024 * MIB), "The largest frame (a producer's batch)."),
    Setting("max_request_bytes", size_bytes(64 * KIB, 2047 * MIB), "The largest request, native or HTTP."),
    Setting("max_fetch_bytes", size_bytes(64 * KIB, 2047 * MIB), "The most that one fetch returns."),
    Setting("partition_queue_bytes", size_bytes(64 * KIB, 2047 * MIB), "Bytes that may wait for one writer."),
    Setting("min_free_bytes", size_bytes(0, 2**50), "Below this much free disk, writes are refused."),
    Setting("max_open_files", whole(0, 2**24), "Log files kept open; 0 takes three quarters of the process's limit."),
    Setting("sync_threads", whole(1, 256), "Threads that write and sync."),
    Setting("workers", worker_count, "Processes that share the work; auto: as many as there are cores."),
    Setting("node_id", optional_node_id, "Its name among the brokers on one database, or its number in a cluster."),
    Setting("cluster_workers", optional_count, "How many workers they share; fixed by the first of them."),
    Setting("link_port", port, "The port for the other brokers of a database or cluster; 0 picks a free one."),
    Setting("link_versions", optional_link_versions,
            "Versions of the protocol between nodes to speak, such as 1-1; none: all that there are."),
    Setting("cluster", optional_text, "The name of the replicated cluster that this node is a member of."),
    Setting("etcd", optional_text, "Where the cluster keeps its metadata: host:2379,host:2379, or etcds://host.",
            mask=lambda value: masked_address(value if "://" in value else f"etcd://{value}")),
    Setting("rack", optional_text, "Where this node is; replicas are spread over racks."),
    Setting("replication_factor", optional_count, "Replicas in a cluster (3); fixed by its first node."),
    Setting("min_isr", optional_count, "Replicas that must have a message for its ack (2); the same."),
    Setting("catch_up_bytes_per_second", size_bytes(0, 2**50),
            "The most that this node sends to replicas that are not in sync, per second; 0: no limit."),
    Setting("transaction_max", duration(1_000, 86_400_000), "How long a transaction may be open at most.",
            "transaction_max_ms"),
    Setting("delivery_history", parse_duration_ms, "How long deliveries and acks of queues are kept for reports.",
            "delivery_history_ms"),
    Setting("delivery_history_bytes", size_bytes(0, 2**50), "The most that a partition keeps of them; 0: nothing."),
    Setting("memory_budget", size_bytes(MIB, 2**50), "The memory for requests and responses of all clients."),
    Setting("slow_client_timeout", parse_duration_ms, "The time over which a client's rate is measured.",
            "slow_client_timeout_ms"),
    Setting("slow_client_rate", size_bytes(0, 1024 * MIB), "Bytes per second; a slower client is dropped."),
    Setting("shutdown_timeout", parse_duration_ms, "How long a clean stop may take.", "shutdown_timeout_ms"),
    Setting("log_requests", flag, "Log every HTTP request, not only those that fail or take long."),
    Setting("log_level", one_of(LOG_LEVELS), f"One of {', '.join(LOG_LEVELS)}."),
    Setting("log_format", one_of(LOG_FORMATS), f"One of {', '.join(LOG_FORMATS)}."),
)  # fmt: skip
_BY_NAME = {setting.name: setting for setting in SETTINGS}


class LoadedConfig(msgspec.Struct, frozen=True):
    config: Config
    origins: dict[str, str]
    """By setting name (topic defaults as `topic.<setting>`): `default`, `flag --x`, `environment X` or `file F`."""


def load_config(
    flags: Mapping[str, Any] | None = None,
    *,
    topic_flags: Mapping[str, Any] | None = None,
    config_file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """The configuration in force. Flags that are None count as absent; InvalidSetting names every problem."""
    reading = _Reading(os.environ if environment is None else environment)
    reading.read_file(config_file)
    reading.read_environment()
    reading.read_flags(flags or {}, topic_flags or {})
    return reading.result()


class _Reading:
    """Collects values from the weakest source to the strongest; a later one replaces an earlier one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._fields: dict[str, Any] = {}
        self._topic: dict[str, Any] = {}
        self._origins = dict.fromkeys((*_BY_NAME, *(f"topic.{name}" for name in SETTING_NAMES)), "default")
        self._problems: list[str] = []

    def read_file(self, given: str | Path | None) -> None:
        path = given or self._environment.get("QUIVER_CONFIG") or None
        if path is None:
            return
        try:
            with Path(path).expanduser().open("rb") as file:
                document = tomllib.load(file)
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._problems.append(f"configuration file {path}: {reason}")
            return
        defaults = document.pop("topic", {})
        for name, value in document.items():
            self._take(name, value, f"file {path}")
        if not isinstance(defaults, dict):
            self._problems.append(f"topic (file {path}): is not a table of topic settings")
            return
        for name, value in defaults.items():
            self._take_topic(name, value, f"file {path}")

    def read_environment(self) -> None:
        for setting in SETTINGS:
            if (value := self._environment.get(setting.environment)) is not None:
                self._take(setting.name, value, f"environment {setting.environment}")
        for name in SETTING_NAMES:
            variable = f"QUIVER_TOPIC_{name.upper()}"
            if (value := self._environment.get(variable)) is not None:
                self._take_topic(name, value, f"environment {variable}")

    def read_flags(self, flags: Mapping[str, Any], topic_flags: Mapping[str, Any]) -> None:
        for name, value in flags.items():
            if value is not None:
                self._take(name, value, f"flag --{name.replace('_', '-')}")
        for name, value in topic_flags.items():
            self._take_topic(name, value, "flag --topic")

    def result(self) -> LoadedConfig:
        config = Config(**self._fields, topic_defaults=TopicConfig().changed(self._topic))
        self._check_together(config)
        if self._problems:
            raise InvalidSetting("\n".join(self._problems), problems=list(self._problems))
        return LoadedConfig(config, self._origins)

    def _take(self, name: str, value: Any, origin: str) -> None:
        setting = _BY_NAME.get(name)
        if setting is None:
            self._problems.append(f"{name} ({origin}): there is no such setting; there are {', '.join(_BY_NAME)}")
            return
        try:
            self._fields[setting.attribute] = setting.parse(value)
        except (QuiverError, ValueError) as error:
            self._problems.append(f"{name} ({origin}): {error}")
            return
        self._origins[name] = origin

    def _take_topic(self, name: str, value: Any, origin: str) -> None:
        try:
            TopicConfig().changed({name: value})
        except InvalidSetting as error:
            self._problems.append(f"topic.{name} ({origin}): {error.details['settings'][name]}")
            return
        self._topic[name] = value
        self._origins[f"topic.{name}"] = origin

    def _check_together(self, config: Config) -> None:
        for one, other in combinations(("http_port", "native_port", "queen_port"), 2):
            if getattr(config, one) == getattr(config, other) != 0:
                self._problems.append(f"{one} and {other} are both {getattr(config, one)}; they must differ")
        if config.workers > 1 and config.storage is not None:
            self._problems.append("workers: several workers share a data directory; with a database there is one")
        self._check_cluster(config)
        self._check_replicas(config)
        for smaller, larger in (
            ("max_message_bytes", "max_frame_bytes"),
            ("max_frame_bytes", "max_request_bytes"),
            ("max_frame_bytes", "max_fetch_bytes"),
            ("max_frame_bytes", "partition_queue_bytes"),
        ):
            low, high = getattr(config, smaller), getattr(config, larger)
            if low > high:
                self._problems.append(f"{smaller} ({low}) is larger than {larger} ({high})")
        most = config.topic_defaults.max_message_bytes
        if most is not None and most > config.max_frame_bytes:
            self._problems.append(
                f"topic.max_message_bytes ({most}) is larger than max_frame_bytes ({config.max_frame_bytes})"
            )

    def _check_cluster(self, config: Config) -> None:
        if (config.cluster is None) != (config.etcd is None):
            self._problems.append("cluster and etcd: a node of a cluster needs both, such as prod and host:2379")
        if config.cluster is not None and config.storage is not None:
            self._problems.append("cluster and storage: brokers on one database need no cluster of their own")
        if config.cluster is not None and config.workers > 1:
            self._problems.append("workers: a node of a cluster is one process; nodes share the cluster_workers")

    def _check_replicas(self, config: Config) -> None:
        if config.cluster is not None:  # its first node decides
            return
        defaults = config.topic_defaults
        for name, value in (("replication_factor", defaults.replication_factor), ("min_isr", defaults.min_isr)):
            if value != 1:
                self._problems.append(f"topic.{name}: is {value}, and there is one replica without a cluster")


def shown_values(config: Config) -> dict[str, Any]:
    """Every setting by the name users write it, topic defaults included, as plain values."""
    shown: dict[str, Any] = {}
    for setting in SETTINGS:
        shown[setting.name] = _shown(setting, getattr(config, setting.attribute))
    defaults = config.topic_defaults.settings()
    return shown | {f"topic.{name}": defaults[name] for name in SETTING_NAMES}


def _shown(setting: Setting, value: Any) -> Any:
    if setting.is_secret and value is not None:
        return MASKED
    if setting.mask is not None and value is not None:
        return setting.mask(value)
    if setting.attribute.endswith("_ms"):
        return format_duration(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value) if isinstance(value, Path) else value
