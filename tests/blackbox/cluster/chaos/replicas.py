"""The files of all nodes after a clean stop: replicas of a partition have the same bytes."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from blackbox.interleaving.checks.evidence import Violation


def check_replicas(directories: Mapping[int, Path], topic_ids: Collection[int]) -> Iterator[Violation]:
    """`directories` by node, of which each has a replica of everything."""
    found = {node: _logs(directory, topic_ids) for node, directory in directories.items()}
    names = sorted({name for logs in found.values() for name in logs})
    if not names:
        yield Violation("", f"no node has files of the topics {sorted(topic_ids)}")
    for name in names:
        contents = {node: logs.get(name, b"") for node, logs in found.items()}
        if len(set(contents.values())) > 1:
            sizes = {node: len(content) for node, content in contents.items()}
            yield Violation("", f"replicas of {name} differ from byte {_first_difference(contents)} on: {sizes}")


def _logs(directory: Path, topic_ids: Collection[int]) -> dict[str, bytes]:
    """The frames of each partition. What is reserved after the last one is zeros."""
    found: dict[str, bytes] = {}
    root = directory / "logs" / "units"
    for number in topic_ids:
        for partition in sorted(root.glob(f"*/topics/{number}/*")):
            if partition.name.isdigit():
                content = b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))
                found[str(partition.relative_to(root))] = content.rstrip(b"\0")
    return found


def _first_difference(contents: Mapping[int, bytes]) -> int:
    shortest = min(map(len, contents.values()))
    differing = (place for place in range(shortest) if len({each[place] for each in contents.values()}) > 1)
    return next(differing, shortest)
