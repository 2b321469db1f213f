"""A member of a group in a thread: what it was given, what it read, how it ended."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

import quiver
from blackbox.processes.broker_process import wait_until

SECONDS = 30.0


class Told(NamedTuple):
    """A call of on_assign, on_revoke or on_lost."""

    what: str
    partitions: list[tuple[str, int]]


class GroupMember(threading.Thread):
    """Reads until `finish`, with a client of its own. `handle` is called with every message, in the thread."""

    def __init__(
        self,
        address: str,
        topics: str | list[str] | None,
        group: str,
        *,
        handle: Callable[[Any], None] | None = None,
        callbacks: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(name=f"member of {group}", daemon=True)
        self.read: list[tuple[str, int, int, bytes]] = []
        self.told: list[Told] = []
        self.error: BaseException | None = None
        self._client = quiver.connect(address).connect()
        self._handle = handle
        if callbacks:
            options |= {f"on_{what}": self._teller(what) for what in ("assign", "revoke", "lost")}
        self.stream: Any = self._client.stream(topics, group=group, **options).open()

    def run(self) -> None:
        try:
            for message in self.stream:
                self.read.append((message.topic, message.partition, message.offset, message.value))
                if self._handle is not None:
                    self._handle(message)
        except BaseException as error:
            self.error = error

    @property
    def values(self) -> list[bytes]:
        return [value for *_, value in self.read]

    def wait_for_values(self, *values: bytes) -> None:
        wait_until(lambda: set(values) <= set(self.values) or self.error, SECONDS, f"{values} among {self.values}")
        assert self.error is None

    def wait_for_assignment(self, *partitions: int) -> None:
        """Until the partitions it has, of whatever topics, are these."""

        def has_them() -> bool:
            return sorted(number for _, number in self.stream.assignment) == sorted(partitions)

        wait_until(has_them, SECONDS, f"{partitions} assigned")

    def finish(self) -> None:
        """Closes the stream; the error the member ended with, if any, is in `error`."""
        try:
            self.stream.close()
        finally:
            if self.is_alive():
                self.join(SECONDS)
            self._client.close()
        assert not self.is_alive(), "the member hangs"

    def __enter__(self) -> "GroupMember":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def _teller(self, what: str) -> Callable[[list[tuple[str, int]]], None]:
        return lambda partitions: self.told.append(Told(what, partitions))
