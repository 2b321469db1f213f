"""Log lines on standard error, as text or JSON, written by a thread so that a blocked pipe never stalls the loop."""

import contextlib
import logging
import os
import select
import sys
import threading
import traceback
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, TextIO

import msgspec

from quiver.model.times import format_time

logger = logging.getLogger(__name__)

MAX_WAITING_LINES = 10_000
MAX_RECENT_LINES = 1000
MAX_RECENT_MESSAGE = 2000
MAX_DIRECT_BYTES = 4096
"""A pipe that takes anything takes this much at once."""
_PLAIN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_BREAKS = str.maketrans({"\n": "\\n", "\r": "\\r"})


def start_logging(
    level: str = "info",
    format: str = "text",
    stream: TextIO | None = None,
    *,
    fields: Mapping[str, Any] | None = None,
) -> "LogWriter":
    """Sends the log lines of the process to a stream (standard error), each with these fields.

    Call `stop` on the result at the end.
    """
    writer = LogWriter(stream or sys.stderr, format)
    if fields:
        writer.addFilter(_Fields(fields))
    root = logging.getLogger()
    root.handlers[:] = [writer]
    root.setLevel(level.upper())
    return writer


def start_direct_logging(level: str = "info", format: str = "text") -> None:
    """The same for a process that has no threads, since it forks."""
    root = logging.getLogger()
    root.handlers[:] = [_DirectWriter(sys.stderr.fileno(), format)]
    root.setLevel(level.upper())


def current_level() -> str:
    return logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()


def change_level(level: str) -> str:
    """Returns the level that was in force before. The change itself is always in the log."""
    before = current_level()
    logger.warning("the log level is %s from now on; it was %s", level, before)
    logging.getLogger().setLevel(level.upper())
    return before


class _Fields(logging.Filter):
    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__()
        self._fields = fields

    def filter(self, record: logging.LogRecord) -> bool:
        vars(record).update(self._fields)
        return True


class LogLine(NamedTuple):
    """A log line as the process remembers it; what is too long is cut."""

    time_ms: int
    level: str
    logger: str
    message: str
    traceback: str


def recent_lines() -> list[LogLine]:
    """The last log lines of this process, oldest first; none where `start_logging` was not called."""
    writers = [handler for handler in logging.getLogger().handlers if isinstance(handler, LogWriter)]
    return [line for writer in writers for line in writer.recent.copy()]


def _remembered(record: logging.LogRecord) -> LogLine:
    fields = "".join(f" {name}={value}" for name, value in _extra(record).items())
    message = (record.getMessage() + fields)[:MAX_RECENT_MESSAGE]
    trace = _traceback(record)[-MAX_RECENT_MESSAGE:]
    return LogLine(int(record.created * 1000), record.levelname.lower(), record.name, message, trace)


class LogWriter(logging.Handler):
    """Takes records without blocking, in order; when too many wait, it drops and counts them."""

    def __init__(self, stream: TextIO, format: str = "text", max_waiting: int = MAX_WAITING_LINES) -> None:
        super().__init__()
        self._stream = stream
        self._line = json_line if format == "json" else text_line
        self._max_waiting = max_waiting
        self._waiting: deque[logging.LogRecord] = deque()
        self.recent: deque[LogLine] = deque(maxlen=MAX_RECENT_LINES)
        """Texts, not records: a record's traceback would keep alive whatever the failed code had in memory."""
        self._dropped = 0
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="quiver-log", daemon=True)
        self._thread.start()

    def handle(self, record: logging.LogRecord) -> bool:
        """Without logging's lock: a deque's append is atomic, so callers never wait for each other."""
        if not self.filter(record):
            return False
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._waiting) >= self._max_waiting:
            self._dropped += 1
            return
        try:
            # Formatted now, because the arguments may have changed by the time the line is written.
            record.msg, record.args = record.getMessage(), None
        except Exception:
            self.handleError(record)
            return
        self._waiting.append(record)
        if not self._wake.is_set():
            self._wake.set()

    def stop(self, timeout: float = 1.0) -> None:
        """Writes what waits, for at most `timeout` seconds, so that a blocked pipe does not keep the process from
        ending."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)
        logging.getLogger().removeHandler(self)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            self._write_waiting()
            if self._stopping and not self._waiting:
                return

    def _write_waiting(self) -> None:
        while self._waiting:
            records = [self._waiting.popleft() for _ in range(min(len(self._waiting), 1000))]
            self.recent.extend(map(_remembered, records))
            lines = list(map(self._line, records))
            del records
            if dropped := self._dropped:
                self._dropped -= dropped
                lines.append(self._line(_notice(f"{dropped} log lines were dropped: the log is read too slowly")))
            try:
                self._stream.write("".join(lines))
                self._stream.flush()
            except (OSError, ValueError):
                continue  # nobody reads the log any more; the broker continues


class _DirectWriter(logging.Handler):
    """Writes each line at once, or drops it where that would block."""

    def __init__(self, fd: int, format: str) -> None:
        super().__init__()
        self._fd = fd
        self._line = json_line if format == "json" else text_line
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):  # nobody reads the log any more
            if self._poll.poll(0):
                os.write(self._fd, self._line(record).encode()[:MAX_DIRECT_BYTES])


def text_line(record: logging.LogRecord) -> str:
    """`2026-01-31T12:00:00.000Z INFO    quiver.app: started port=7480`; a traceback follows on its own lines."""
    fields = "".join(f" {name}={value}" for name, value in _extra(record).items())
    message = (record.getMessage() + fields).translate(_BREAKS)
    line = f"{format_time(int(record.created * 1000))} {record.levelname:<7} {record.name}: {message}\n"
    return line + _traceback(record)


def json_line(record: logging.LogRecord) -> str:
    line = {
        "time": format_time(int(record.created * 1000)),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
        **_extra(record),
    }
    if trace := _traceback(record):
        line["traceback"] = trace
    return msgspec.json.encode(line, enc_hook=str).decode() + "\n"


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _PLAIN_FIELDS}


def _traceback(record: logging.LogRecord) -> str:
    return "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""


def _notice(message: str) -> logging.LogRecord:
    return logging.makeLogRecord({"name": "quiver.log", "levelname": "WARNING", "msg": message})
