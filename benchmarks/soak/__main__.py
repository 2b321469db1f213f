"""`python -m benchmarks.soak`: load and churn for a long time, with samples, a picture and a verdict for each run."""

import argparse
import contextlib
import datetime
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.machine.machine import machine, source, versions
from benchmarks.roles import Role, run_roles
from benchmarks.servers.broker import Broker
from benchmarks.servers.postgres import PostgresServer, postgres_program
from benchmarks.soak.churn import churn_roles
from benchmarks.soak.load import load_roles
from benchmarks.soak.plot import plot
from benchmarks.soak.samples import SCHEMA, Sample, Sampler
from benchmarks.soak.verdict import verdict

ENGINES = ("local", "postgres")
RUNS: dict[str, Callable[[Broker, float, float], dict[str, Role]]] = {"load": load_roles, "churn": churn_roles}
SAMPLES = 200
"""Of each run."""
GRACE_SECONDS = 120.0
"""What a role may need beyond its time: its last round, on a busy machine."""
POSTGRES = {"shared_buffers": "256MB", "max_wal_size": "2GB"}


class SoakRun(msgspec.Struct, kw_only=True):
    engine: str
    kind: str
    verdict: str
    done: dict[str, int]
    """Messages of the load, rounds of the churn, by process."""
    samples: list[Sample]

    @property
    def name(self) -> str:
        return f"{self.engine}-{self.kind}"


def main() -> int:
    """1 if something grows."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped
    directory: Path = arguments.directory
    directory.mkdir(parents=True, exist_ok=True)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    engines = [engine for engine in arguments.engines if _is_installed(engine)]
    seconds = arguments.seconds / max(1, len(engines) * len(RUNS))
    runs = []
    with tempfile.TemporaryDirectory(
        prefix="quiver-soak-", dir=arguments.scratch, ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as a user of its own
        about = {"started": started, "machine": machine(Path(folder)), "source": source(), "versions": versions()}
        for engine in engines:
            for kind in RUNS:
                run = _soak(engine, kind, seconds, arguments.share, Path(folder))
                runs.append(run)
                _write(directory, run, {**about, "runs": runs})
    return 1 if any(run.verdict.startswith("grows") for run in runs) else 0


def _is_installed(engine: str) -> bool:
    if engine == "postgres" and postgres_program("postgres") is None:
        print("postgres: left out, PostgreSQL is not installed", file=sys.stderr)
        return False
    return True


def _soak(engine: str, kind: str, seconds: float, share: float, scratch: Path) -> SoakRun:
    with _database(engine, scratch / f"{engine}-{kind}-database") as address:
        storage = () if address is None else ("--storage", f"{address}?schema={SCHEMA}")
        with Broker(scratch / f"{engine}-{kind}", *storage) as broker:
            roles = RUNS[kind](broker, seconds, share)
            with Sampler(broker, address, max(0.5, seconds / SAMPLES)) as sampler:
                outcomes = run_roles(roles, timeout=seconds + GRACE_SECONDS)
    done = {name: outcome.result for name, outcome in outcomes.items()}
    return SoakRun(engine=engine, kind=kind, verdict=verdict(sampler.samples), done=done, samples=sampler.samples)


@contextlib.contextmanager
def _database(engine: str, directory: Path) -> Iterator[str | None]:
    if engine != "postgres":
        yield None
        return
    server = PostgresServer(directory, POSTGRES)
    try:
        server.start()
        yield server.address
    finally:
        server.stop()


def _write(directory: Path, run: SoakRun, everything: dict[str, Any]) -> None:
    """After every run, so that one that fails takes nothing of the others."""
    text = msgspec.json.format(msgspec.json.encode(everything), indent=1)
    (directory / "soak.json").write_bytes(text)
    (directory / f"{run.name}.svg").write_text(plot(f"{run.name}: {run.verdict}", run.samples))
    first, last = run.samples[0], run.samples[-1]
    print(
        f"{run.name}: {run.verdict}; {last.seconds:.0f} s, {sum(run.done.values()):,} done, "
        f"memory {first.memory_bytes / 1e6:.0f} to {last.memory_bytes / 1e6:.0f} MB, "
        f"store {first.store_bytes / 1e6:.0f} to {last.store_bytes / 1e6:.0f} MB, "
        f"files {first.open_files} to {last.open_files}",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--seconds", type=_positive, default=3600.0, help="of all runs together (default: an hour)")
    parser.add_argument("--engines", type=_engines, default=list(ENGINES), help="local,postgres")
    parser.add_argument("--share", type=_share, default=1.0, help="of the time in which clients work (default: 1)")
    parser.add_argument("--directory", type=Path, default=Path("soak"), help="where results go (default: ./soak)")
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp"), help="where data is written (a real disk)")
    return parser.parse_args()


def _engines(text: str) -> list[str]:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names or set(names) - set(ENGINES):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(ENGINES)}")
    return names


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError("a number above 0, up to 1")
    return share


def _positive(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("a time above 0")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
