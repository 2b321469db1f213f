"""Log lines: both formats, order, bounded memory, and a reader that is gone or stuck."""

import contextlib
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from quiver.telemetry.logs import LogWriter, json_line, start_logging, text_line


def record(message: str, *args: object, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("quiver.test", logging.WARNING, __file__, 1, message, args, None)
    made.created = 1_700_000_000.5
    vars(made).update(more)
    return made


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:], logger.level = handlers, level


def test_a_text_line_has_time_level_name_message_and_fields() -> None:
    assert text_line(record("took %d ms", 5, route="/x")) == (
        "2023-11-14T22:13:20.500Z WARNING quiver.test: took 5 ms route=/x\n"
    )


def test_a_message_cannot_forge_a_second_line() -> None:
    assert text_line(record("a\n2023 INFO quiver: forged\r")).count("\n") == 1


def test_a_json_line_is_one_object_with_the_same_fields() -> None:
    line = json_line(record("two\nlines", status=200, path=io))
    assert line.count("\n") == 1
    decoded = json.loads(line)
    assert decoded["message"] == "two\nlines"
    assert decoded["level"] == "warning"
    assert decoded["status"] == 200


@pytest.mark.parametrize("line", [text_line, json_line])
def test_a_traceback_is_kept(line: object) -> None:
    try:
        raise ValueError("the reason")
    except ValueError:
        made = record("failed", exc_info=sys.exc_info())
    assert "ValueError: the reason" in line(made)  # type: ignore[operator]


def test_lines_come_out_in_order_and_all_of_them(root: logging.Logger) -> None:
    stream = io.StringIO()
    writer = start_logging("debug", "text", stream)
    for number in range(5000):
        root.debug("line %d", number)
    writer.stop()
    numbers = [int(line.rsplit(" ", 1)[1]) for line in stream.getvalue().splitlines()]
    assert numbers == list(range(5000))


def test_the_level_is_obeyed(root: logging.Logger) -> None:
    stream = io.StringIO()
    writer = start_logging("warning", "json", stream)
    root.info("not this")
    root.warning("this")
    writer.stop()
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["this"]


def test_a_line_shows_its_arguments_as_they_were(root: logging.Logger) -> None:
    stuck = StuckStream()
    writer = start_logging("info", "text", stuck)
    items = [1]
    root.info("first")
    stuck.entered.wait()
    root.info("items %s", items)
    items.append(2)
    stuck.let_go.set()
    writer.stop()
    assert "items [1]\n" in "".join(stuck.written)


def test_a_stuck_reader_never_blocks_the_caller_and_drops_are_counted() -> None:
    stuck = StuckStream()
    writer = LogWriter(stuck, max_waiting=10)
    writer.emit(record("first"))
    stuck.entered.wait()
    for number in range(100):
        writer.emit(record("line %d", number))
    stuck.let_go.set()
    writer.stop()
    text = "".join(stuck.written)
    assert "line 9\n" in text
    assert "line 10\n" not in text
    assert "90 log lines were dropped" in text


def test_stop_does_not_wait_for_a_stuck_reader() -> None:
    stuck = StuckStream()
    writer = LogWriter(stuck)
    writer.emit(record("first"))
    stuck.entered.wait()
    writer.stop(timeout=0.01)
    assert not stuck.written
    stuck.let_go.set()


def test_a_closed_pipe_does_no_harm() -> None:
    reader, target = os.pipe()
    os.close(reader)
    with os.fdopen(target, "w", buffering=1) as stream:
        writer = LogWriter(stream)
        writer.emit(record("nobody reads this"))
        writer.stop()
        with contextlib.suppress(BrokenPipeError):
            stream.close()


class StuckStream(io.TextIOBase):
    """Blocks in `write` until it is let go."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.entered, self.let_go = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        self.let_go.wait()
        self.written.append(text)
        return len(text)
