"""`python -m benchmarks.cluster_size`: the tables of docs/scale.md."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.cluster_size import cluster, decisions, failover
from benchmarks.machine.machine import machine, source
from benchmarks.servers.etcd import EtcdServers

PARTS = ("decisions", "failover", "units", "keys", "partitions")


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped
    with tempfile.TemporaryDirectory(prefix="quiver-size-", dir=arguments.scratch) as folder:
        scratch = Path(folder)
        print(f"machine: {machine(scratch)}\nsource: {source()}")
        if "decisions" in arguments.parts:
            _table(
                "CPU time of one decision, 100 nodes", decisions.COLUMNS, decisions.measure_decisions(arguments.units)
            )
        if set(arguments.parts) == {"decisions"}:
            return 0
        if (reason := EtcdServers.missing()) is not None:
            print(f"not measured: {reason}", file=sys.stderr)
            return 1
        etcd = EtcdServers(scratch / "etcd")
        etcd.start()
        try:
            _with_etcd(arguments, scratch, etcd.addresses)
        finally:
            etcd.stop()
    return 0


def _with_etcd(arguments: argparse.Namespace, scratch: Path, etcd: str) -> None:
    rows: dict[str, tuple[str, Sequence[str], Callable[[], Iterable[tuple[str, ...]]]]] = {
        "failover": (
            "one of 100 nodes lost, three members of etcd",
            failover.COLUMNS,
            lambda: failover.run_failover(arguments.units, etcd),
        ),
        "units": (
            "three nodes, by units",
            cluster.UNITS_COLUMNS,
            lambda: cluster.measure_units(scratch, etcd, arguments.cluster_units),
        ),
        "keys": ("keys in etcd", cluster.KEYS_COLUMNS, lambda: cluster.measure_keys(scratch, etcd)),
        "partitions": (
            "three nodes with six units, by partitions",
            cluster.PARTITIONS_COLUMNS,
            lambda: cluster.measure_partitions(scratch, etcd, arguments.partitions),
        ),
    }
    for name, (title, columns, measure) in rows.items():
        if name in arguments.parts:
            _table(title, columns, measure())


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def _arguments() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(each) for each in text.split(",")]

    def parts(text: str) -> list[str]:
        if unknown := set(text.split(",")) - set(PARTS):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(PARTS)}")
        return text.split(",")

    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_size", description=__doc__)
    parser.add_argument("--parts", type=parts, default=list(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--units", type=numbers, default=[100, 1_000, 10_000, 100_000], help="for the controller")
    parser.add_argument("--cluster-units", type=numbers, default=[6, 64], help="for real nodes")
    parser.add_argument("--partitions", type=numbers, default=[0, 1_000, 3_000])
    parser.add_argument("--scratch", type=Path, help="where temporary directories are made")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
