"""Checks of a configuration: settings that are allowed and can hurt. Takes what `quiver config` shows."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from quiver.cli.doctor.finding import Finding, ok, warning
from quiver.model.limits import MIB


class _Risk(NamedTuple):
    is_there: Callable[[Mapping[str, Any]], bool]
    message: str
    advice: str


_RISKS = (
    _Risk(
        lambda s: not _is_loopback(str(s["host"])),
        "host is {host}: anybody who can reach the ports can read, change and delete everything",
        "keep both ports behind a firewall, or listen on 127.0.0.1",
    ),
    _Risk(
        lambda s: s["min_free_bytes"] < 64 * MIB,
        "min_free_bytes is {min_free_bytes}: journals and snapshots may find the disk full",
        "set min_free_bytes to 256 MiB or more",
    ),
    _Risk(
        lambda s: s["topic.durability"] == "memory",
        "topic.durability is memory: messages of new topics are gone when the broker stops",
        "set topic.durability to fsync or interval, and memory only for topics that may lose everything",
    ),
    _Risk(
        lambda s: s["topic.retention"] is None and s["topic.retention_bytes"] is None,
        "topic.retention is none: new topics keep everything, until the disk is full",
        "set topic.retention or topic.retention_bytes",
    ),
    _Risk(
        lambda s: s["auto_create"] is True,
        "auto_create is true: a misspelled name creates a topic",
        "create topics explicitly (quiver topic create) and set auto_create to false",
    ),
    _Risk(
        lambda s: s["slow_client_rate"] == 0,
        "slow_client_rate is 0: clients that stop reading keep their memory and their connection",
        "set slow_client_rate to 1KiB",
    ),
    _Risk(
        lambda s: s["log_level"] == "debug",
        "log_level is debug: a log line for each request costs throughput",
        "set log_level to info once you have seen what you need",
    ),
    _Risk(
        lambda s: s["log_requests"] is True,
        "log_requests is true: a log line for each HTTP request costs throughput",
        "set log_requests to false once you have seen what you need",
    ),
)


def check_settings(settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Settings of another version may lack some: what they would mean is not judged."""
    found = [
        warning("configuration", risk.message.format_map(settings), risk.advice)
        for risk in _RISKS
        if _applies(risk, settings)
    ]
    yield from found or [ok("configuration", f"{len(settings)} settings, none of them risky")]


def _applies(risk: _Risk, settings: Mapping[str, Any]) -> bool:
    try:
        return risk.is_there(settings)
    except KeyError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
