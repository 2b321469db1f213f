"""Checks of numbers of the machine: disk, open files, clocks. Pure: whoever calls has measured."""

from collections.abc import Iterator

from quiver.cli.doctor.finding import Finding, ok, problem, warning
from quiver.cli.formats.output import human_bytes
from quiver.system.machine import FileSystem, OpenFileUse

_IN_MEMORY = ("tmpfs", "ramfs")
_OVER_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.sshfs", "fuse.s3fs", "virtiofs")
_LOW_SHARE = 0.1
_MIN_OPEN_FILES = 4096
_CROWDED_SHARE = 0.8
_CLOCK_WARNING_MS = 2000
_CLOCK_PROBLEM_MS = 300_000


def check_disk(where: str, disk: FileSystem, min_free_bytes: int) -> Iterator[Finding]:
    free, total = human_bytes(disk.free_bytes), human_bytes(disk.total_bytes)
    shown = f"{where}: {free} of {total} free"
    if disk.free_bytes < min_free_bytes:
        yield problem(
            "disk",
            f"{shown}, less than min_free_bytes ({human_bytes(min_free_bytes)}): writes are refused",
            "free space or enlarge the disk; shorter retention (quiver topic alter TOPIC --retention 24h) frees "
            "space within a minute; reads and deletes continue meanwhile",
        )
    elif disk.free_bytes < max(2 * min_free_bytes, _LOW_SHARE * disk.total_bytes):
        yield warning(
            "disk",
            f"{shown}; below {human_bytes(min_free_bytes)} (min_free_bytes) writes are refused",
            "enlarge the disk, or lower retention or retention_bytes of the largest topics (quiver topic list)",
        )
    else:
        yield ok("disk", f"{shown} ({disk.kind or 'unknown file system'})")
    yield from _check_kind(where, disk)


def _check_kind(where: str, disk: FileSystem) -> Iterator[Finding]:
    if disk.kind in _IN_MEMORY:
        yield warning(
            "disk",
            f"{where} is on {disk.kind}, which is memory: everything is gone after a restart of the machine",
            "move data_dir to a disk",
        )
    elif disk.kind in _OVER_NETWORK:
        yield warning(
            "disk",
            f"{where} is on {disk.kind}, a file system over the network: locks and syncs may promise too much",
            "move data_dir to a local disk, or to a block device over the network",
        )
    elif disk.kind == "overlay":
        yield warning(
            "disk",
            f"{where} is in the container's own layer (overlay): it is removed with the container",
            "mount a volume at data_dir",
        )


def check_open_files(who: str, use: OpenFileUse) -> Finding:
    shown = f"{who}: {use.open} open, {use.limit} allowed"
    raise_it = "raise it: LimitNOFILE=1048576 in the systemd unit, --ulimit nofile for containers, or ulimit -n -H"
    if use.open > _CROWDED_SHARE * use.limit:
        return problem("open files", f"{shown}: connections will be refused soon", raise_it)
    if use.limit < _MIN_OPEN_FILES:
        return warning("open files", f"{shown}: each connection and each active log file needs one", raise_it)
    return ok("open files", shown)


def check_clock(broker_ms: int, before_ms: int, after_ms: int) -> Finding:
    """The broker's time, asked for between two moments of this machine's clock."""
    ahead = broker_ms - after_ms
    behind = before_ms - broker_ms
    off = max(ahead, behind, 0)
    if off < _CLOCK_WARNING_MS:
        return ok("clock", "the broker's clock agrees with the clock of this machine")
    shown = f"the broker's clock is {off / 1000:.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    advice = (
        "run a time service (chrony, systemd-timesyncd) on both; retention, delays, time to live and leases follow "
        "the broker's clock"
    )
    return (problem if off >= _CLOCK_PROBLEM_MS else warning)("clock", shown, advice)


def check_newest_file(where: str, newest_ms: int, now_ms: int) -> Finding | None:
    """A file that was written in the future: the clock went back since then."""
    if newest_ms - now_ms < _CLOCK_WARNING_MS:
        return None
    return warning(
        "clock",
        f"the newest file in {where} was written {(newest_ms - now_ms) / 1000:.0f} s in the future: the clock of "
        "this machine went back",
        "set the clock right before the broker starts; messages keep the times that they were stored with",
    )
