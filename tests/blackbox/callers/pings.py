"""How long the broker's event loop is held, in processor time of its own: the load of the machine does not count."""

import threading
from pathlib import Path

from blackbox.callers.native_wire import NativeWire
from blackbox.processes.broker_process import BrokerProcess
from quiver.protocol.messages import GetMetadata

STALL_SECONDS = 0.05


class Pings(threading.Thread):
    """Asks the native port for an empty answer over and over.

    `longest` is the most that the loop worked, in seconds of its processor, from a question to its answer: how long
    it was held if nothing else ran on the machine.
    """

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self._wire = NativeWire(broker.address)
        self._schedule = Path(f"/proc/{broker.pid}/task/{broker.pid}/schedstat")
        self._stopping = threading.Event()
        self.longest, self.count = 0.0, 0

    def run(self) -> None:
        while not self._stopping.is_set():
            begun = self._worked()
            self._wire.ask(GetMetadata([]))
            self.longest = max(self.longest, self._worked() - begun)
            self.count += 1

    def _worked(self) -> float:
        """Of the thread that runs the loop."""
        return int(self._schedule.read_text().split()[0]) / 1e9

    def finish(self) -> float:
        self._stopping.set()
        self.join()
        self._wire.socket.close()
        return self.longest
