"""A member of a group as a process: writes down what it is given, reads and commits, each with the time.

    python group_worker.py ADDRESS TOPIC GROUP FILE auto|manual

It ends cleanly on SIGTERM. A member that is put out, or cannot reach the broker, joins again. Every line of the file
is one write, so a kill takes nothing back.
"""

import json
import os
import signal
import sys
import threading
import time
from typing import Any

import quiver
from quiver.model.errors import MemberFenced, MemberNotFound, QuiverError

SESSION = "1s"
COMMIT_EVERY = 20
TRY_AGAIN_SECONDS = 0.05


class Worker:
    def __init__(self, address: str, topic: str, group: str, path: str, commits: str) -> None:
        self._address, self._topic, self._group = address, topic, group
        self._commits_by_hand = commits == "manual"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._leaving = threading.Event()
        self._stream: Any = None
        signal.signal(signal.SIGTERM, lambda *_: self._leaving.set())
        threading.Thread(target=self._close_when_asked, daemon=True).start()

    def run(self) -> None:
        while not self._leaving.is_set():
            try:
                with quiver.connect(self._address) as q:
                    self._take_part(q)
            except MemberFenced:
                self._note("fenced")
            except MemberNotFound:
                if not self._leaving.is_set():  # else it was closed between two steps of the reader
                    raise
            except QuiverError as error:
                if not error.retryable:
                    raise
                self._note("disturbed", error.code)
                self._leaving.wait(TRY_AGAIN_SECONDS)

    def _take_part(self, q: Any) -> None:
        self._note("start")
        stream = q.stream(
            self._topic,
            group=self._group,
            session_timeout=SESSION,
            heartbeat="200ms",
            max_wait="100ms",
            auto_commit=False if self._commits_by_hand else "100ms",
            on_assign=lambda parts: self._note("assign", [number for _, number in parts], stream.generation),
            on_revoke=lambda parts: self._revoke(stream, [number for _, number in parts]),
            on_lost=lambda parts: self._note("lost", [number for _, number in parts]),
        )
        with stream:
            self._stream = stream
            self._note("member", stream.member_id)
            if self._leaving.is_set():
                return
            for count, message in enumerate(stream):
                self._note("read", message.partition, message.offset)
                if self._commits_by_hand and count % COMMIT_EVERY == 0:
                    self._commit(stream)
        self._note("closed")

    def _revoke(self, stream: Any, partitions: list[int]) -> None:
        if self._commits_by_hand:
            self._commit(stream)
        self._note("revoke", partitions)

    def _commit(self, stream: Any) -> None:
        stream.commit()
        self._note("commit", {number: offset for (_, number), offset in stream.positions.items()})

    def _close_when_asked(self) -> None:
        self._leaving.wait()
        if self._stream is not None:
            try:
                self._stream.close()
            except QuiverError as error:
                self._note("disturbed", error.code)

    def _note(self, what: str, *details: Any) -> None:
        os.write(self._file, json.dumps([time.monotonic_ns(), what, *details]).encode() + b"\n")


if __name__ == "__main__":
    Worker(*sys.argv[1:]).run()
