"""What else the machine did during a run: processor time of strangers and time stolen by the hypervisor."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from benchmarks.servers.server import cpu_seconds

NOISY_CORES = 0.3


class Noise:
    """A with-block; afterwards `foreign_cores` and `stolen_cores` say how busy others were, on average."""

    foreign_cores = 0.0
    stolen_cores = 0.0

    def __init__(self, server_pids: Sequence[int] = ()) -> None:
        self._pids = server_pids

    def __enter__(self) -> "Noise":
        self._begin = time.monotonic()
        self._busy, self._stolen = _machine_seconds()
        self._own = self._own_seconds()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = max(time.monotonic() - self._begin, 1e-6)
        busy, stolen = _machine_seconds()
        own = self._own_seconds() - self._own
        self.foreign_cores = max(0.0, (busy - self._busy - own) / seconds)
        self.stolen_cores = (stolen - self._stolen) / seconds

    def _own_seconds(self) -> float:
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system + cpu_seconds(self._pids)


def _machine_seconds() -> tuple[float, float]:
    """Busy and stolen processor time of the whole machine since it was started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, stolen = fields
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, stolen / tick
