"""Measures which files of the broker one request runs through, and writes the list: request_paths.py [--check]

The rule of counting: a broker inside this process serves one connection of the native protocol; files are synced
(the default). After a warm-up each request is sent alone, ROUNDS times, with pauses of changing length in between. A
file counts when one of its functions runs in a thread of the broker in every round, from the request (for a due
delay: from shortly before its time) until the broker is idle again, which leaves out what runs now and then.
"""

import difflib
import os
import random
import socket
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from quiver.app.config import load_config
from quiver.app.embedded import EmbeddedBroker
from quiver.model.settlement import ACK, SettleRequest
from quiver.protocol import group_messages as groups
from quiver.protocol import messages as m
from quiver.protocol import queue_messages as queues
from quiver.protocol.packet import Packet, PacketReader, decode_response, encode_packet
from quiver.protocol.preface import PREFACE
from quiver.records.build import build_frame

ROOT = Path(__file__).parent.parent
SOURCE = str(ROOT / "src" / "quiver") + os.sep
_MEASUREMENTS = 3
"""A timer of the broker that fires during a request adds its files; one measurement without that is enough."""
DOCUMENT = ROOT / "docs" / "request-paths.md"
BEGIN, END = "<!-- request paths: made by scripts/request_paths.py -->", "<!-- end of request paths -->"
ROUNDS = 9
WARM_UP_ROUNDS = 3
DELAY_SECONDS = 0.15
QUIET_SECONDS = 0.03
MAX_PAUSE_SECONDS = 0.15
MAX_COLUMNS = 100
GROUND = ("system/", "model/")
MAX_PACKET_BYTES = 16 * 1024 * 1024


class Recorder:
    """The files of `quiver` whose functions run in threads that are started after `install`."""

    def __init__(self) -> None:
        self._files: set[str] | None = None

    def install(self) -> None:
        threading.setprofile(self._on_event)

    def record(self, step: Callable[[], object]) -> set[str]:
        files = self._files = set()
        try:
            step()
            time.sleep(QUIET_SECONDS)
        finally:
            self._files = None
        return {name.removeprefix(SOURCE) for name in files if name.startswith(SOURCE)}

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._files is not None and event == "call":
            self._files.add(frame.f_code.co_filename)


class Connection:
    """Requests to the broker, one at a time."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._reader = PacketReader(MAX_PACKET_BYTES)
        end.sendall(PREFACE)
        self.ask(m.Hello([m.PROTOCOL_VERSION], list(m.CODECS), list(m.ENCODINGS), "paths"))

    def ask(self, message: m.Message, payload: bytes = b"") -> Any:
        self._socket.sendall(encode_packet(1, message, len(payload)) + payload)
        packets: list[Packet] = []
        while not packets:
            packets = self._reader.feed(self._socket.recv(1 << 16))
        answer = decode_response(packets[0].message_bytes)
        if isinstance(answer, m.Failure):
            raise RuntimeError(answer.message)
        return answer


class Requests:
    """One topic of one partition, and the requests that are measured."""

    def __init__(self, connection: Connection, data: Path) -> None:
        self._ask = connection.ask
        self._topic = self._ask(m.CreateTopic("paths", {"partitions": 1})).id
        self._producer = self._ask(m.InitProducer())
        self._member = self._ask(groups.JoinGroup("readers", "paths", ["paths"])).member_id
        self._log = data / "logs" / "topics" / str(self._topic) / "0"
        self._sequence = 0
        self._offset = 0
        self._lease: SettleRequest | None = None

    def steps(self) -> dict[str, Callable[[], object]]:
        return {
            "publish": self._publish,
            "fetch": self._fetch,
            "receive": self._receive,
            "ack": self._ack,
            "commit": self._commit,
            "due delay": self._await_due,
        }

    def prepare(self, name: str) -> None:
        """What a step needs, and does not count."""
        while name == "due delay":
            self._log_bytes = self._size()
            due = time.time() + DELAY_SECONDS
            frame = build_frame([b"x"], timestamp_ms=1, deliver_at_ms=[int(due * 1000)])
            self._ask(m.Produce(self._topic, 0, 1), bytes(frame))
            time.sleep(max(0, due - time.time() - QUIET_SECONDS))
            if time.time() < due - QUIET_SECONDS / 2:
                return
            self._await_due()  # a busy machine: this one was looked at too late

    def _publish(self) -> None:
        frame = build_frame(
            [b"x"],
            timestamp_ms=1,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=self._sequence,
        )
        self._sequence += 1
        self._offset = self._ask(m.Produce(self._topic, 0, 1), bytes(frame)).base_offset

    def _fetch(self) -> None:
        fetched = self._ask(m.Fetch([m.FetchPart(self._topic, 0, self._offset, 1 << 20)]))
        assert fetched.parts[0].length, "nothing was fetched"

    def _receive(self) -> None:
        received = self._ask(queues.Receive([self._topic], "workers", max_messages=1))
        [run] = received.runs
        part = (run.topic_id, run.partition, run.group_id, run.lease_id)
        self._lease = SettleRequest(*part, ACK, [(run.start, run.end)])

    def _ack(self) -> None:
        assert self._lease is not None, "received first"
        self._ask(queues.Settle([self._lease]))

    def _commit(self) -> None:
        self._ask(
            groups.CommitOffsets("readers", self._member, [groups.CommitPart(self._topic, 0, self._offset + 1)])
        )

    def _await_due(self) -> None:
        deadline = time.monotonic() + 30
        while self._size() == self._log_bytes:
            if time.monotonic() > deadline:
                raise RuntimeError("a delayed message did not become due")
            time.sleep(QUIET_SECONDS / 10)

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self._log.glob("*.log"))


def measure() -> dict[str, list[str]]:
    """For each request the files that it runs through, without `.py`."""
    recorder, pauses = Recorder(), random.Random(1)
    recorder.install()
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        broker = EmbeddedBroker(load_config({"data_dir": directory}, environment={}).config)
        broker.start()
        try:
            requests = Requests(Connection(broker.connect()), data)
            seen: dict[str, Counter[str]] = {name: Counter() for name in requests.steps()}
            for number in range(WARM_UP_ROUNDS + ROUNDS):
                for name, step in requests.steps().items():
                    time.sleep(pauses.random() * MAX_PAUSE_SECONDS)
                    requests.prepare(name)
                    files = recorder.record(step)
                    if number >= WARM_UP_ROUNDS:
                        seen[name].update(files)
        finally:
            broker.stop()
    return {name: sorted(file for file, n in counts.items() if n == ROUNDS) for name, counts in seen.items()}


def show(paths: dict[str, list[str]]) -> str:
    """Each path by folder, from the gateway down."""
    lines = ["| request | files | of them above `system` and `model` |", "|---|---|---|"]
    for name, files in paths.items():
        above = [file for file in files if not file.startswith(GROUND)]
        lines.append(f"| {name} | {len(files)} | {len(above)} |")
    for name, files in paths.items():
        lines += ["", "```", f"{name}: {len(files)} files"]
        folders: dict[str, list[str]] = {}
        for file in files:
            folder, _, module = file.removesuffix(".py").rpartition("/")
            folders.setdefault(folder, []).append(module)
        for folder in sorted(folders, key=_layer):
            lines += _wrapped(f"  {folder}/", folders[folder])
        lines.append("```")
    return "\n".join(lines)


def _layer(folder: str) -> tuple[int, str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [set(layer.split(" | ")) for layer in contracts[0]["layers"]]
    return next(number for number, layer in enumerate(layers) if folder.partition("/")[0] in layer), folder


def _wrapped(head: str, words: list[str]) -> list[str]:
    lines, line = [], head.ljust(28)
    for word in words:
        if len(line) + 1 + len(word) > MAX_COLUMNS:
            lines.append(line)
            line = " " * 28
        line += f" {word}"
    return [*lines, line]


def main() -> int:
    old = DOCUMENT.read_text()
    if "--check" not in sys.argv[1:]:
        DOCUMENT.write_text(_with_paths(old))
        return 0
    for _ in range(_MEASUREMENTS):
        new = _with_paths(old)
        if old == new:
            return 0
    print(f"{DOCUMENT} does not list the files that requests run through; run {__file__}", file=sys.stderr)
    print("\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)), file=sys.stderr)
    return 1


def _with_paths(document: str) -> str:
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{show(measure())}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
