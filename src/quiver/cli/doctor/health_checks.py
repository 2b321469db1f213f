"""Checks of what a broker says about itself: the checks of /readyz, what takes no writes, versions."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from quiver.cli.doctor.finding import Finding, ok, problem, shortened, warning

_SHOWN = 20
_LOOK_AT_LOG = "look at the broker's log (GET /logs) for the first error"
_ADVICE = {
    "disk": "free space or enlarge the disk; shorter retention frees space within a minute",
    "event_loop_lag": "something holds the broker: look for requests that are slow (GET /logs) and for other load on "
    "the machine's processors",
    "memory": "lower memory_budget, give the machine or the container more memory, or look for topics with many "
    "producers and large dedup_window",
}
_OFFLINE = (
    "check the disk (dmesg, free space), then restart the broker: it checks the end of the log and continues; "
    "docs/recovery.md has what damage means"
)


def check_health(ready: Mapping[str, Any], topics: set[str]) -> Iterator[Finding]:
    """`ready` is the response of /readyz?verbose=true."""
    problems = dict(ready.get("problems", {}))
    failed = {name: check["message"] for name, check in ready["checks"].items() if check["status"] != "pass"}
    if problems:
        failed.pop("storage", None)  # it only sums up what comes below
    for name, message in failed.items():
        yield problem("health", f"{name}: {message}", _ADVICE.get(name, _LOOK_AT_LOG))
    if not failed and not problems:
        yield ok("health", "the broker takes reads and writes")
    yield from shortened(list(_offline_topics(problems, topics)), _SHOWN)
    yield from shortened(list(_other_problems(problems, topics)), _SHOWN)
    noted = ready.get("warnings", {})
    advice = "nothing stopped; docs/recovery.md says what it means and when it goes away"
    yield from shortened([warning("health", f"{name}: {why}", advice) for name, why in noted.items()], _SHOWN)


def _offline_topics(problems: Mapping[str, str], topics: set[str]) -> Iterator[Finding]:
    """A topic with several partitions offline for one reason is one finding."""
    partitions: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, why in problems.items():
        topic, number = _partition(name)
        if topic in topics:
            partitions[topic, why].append(number)
    for (topic, why), numbers in partitions.items():
        yield problem("topics", f"{topic} takes no writes in partition {', '.join(numbers)}: {why}", _OFFLINE)
    if not partitions:
        noun = "topic" if len(topics) == 1 else "topics"
        yield ok("topics", f"{len(topics)} {noun}, every log takes writes")


def _other_problems(problems: Mapping[str, str], topics: set[str]) -> Iterator[Finding]:
    for name, why in problems.items():
        if _partition(name)[0] in topics:
            continue
        advice = _LOOK_AT_LOG if name.startswith("task ") else _OFFLINE
        yield problem("health", f"{name}: {why}", advice)


def _partition(name: str) -> tuple[str, str]:
    """`orders-0` is partition 0 of orders; a name without a number is no partition."""
    topic, _, number = name.rpartition("-")
    return (topic, number) if number.isdecimal() else ("", "")


def check_versions(broker: Mapping[str, Any], own_version: str, own_python: str) -> Iterator[Finding]:
    """`broker` has the fields of /version, and `python` where the broker says it."""
    version = str(broker.get("version", "unknown"))
    shown = f"the broker is {version} ({str(broker.get('git_commit', 'unknown'))[:12]})"
    if python := broker.get("python"):
        shown += f" on Python {python}"
    shown += f", this command {own_version} on Python {own_python}"
    if version != own_version:
        yield warning("versions", shown, "use the same version on both sides: pip install quivermq==" + version)
    else:
        yield ok("versions", shown)
