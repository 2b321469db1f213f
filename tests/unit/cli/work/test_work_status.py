"""`quiver work`: the status line, and finding the handler."""

import sys
from pathlib import Path

import pytest

from quiver.cli.work.handler_import import load_handler
from quiver.cli.work.status import StatusText, status
from quiver.client.work.worker_counters import WorkerCounters
from quiver.model.errors import InvalidRequest


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return int(self.seconds * 1000)


def test_the_rate_is_that_of_the_last_seconds():
    clock = FakeClock()
    text = StatusText("senders on emails", clock)
    clock.seconds += 1
    assert text.of(WorkerCounters(processed=500)) == "senders on emails: 500 processed, 500/s, 0 failed, 0 in flight"
    clock.seconds += 5
    assert "100/s" in text.of(WorkerCounters(processed=900, failed=100, in_flight=8))
    clock.seconds += 60
    assert "0/s" in text.of(WorkerCounters(processed=900, failed=100))
    assert "2 rejected, 1 lost" in text.of(WorkerCounters(rejected=2, lost=1))


def test_without_a_terminal_there_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]):
    clock = FakeClock()
    with status("g on t", clock, is_terminal=False) as show:
        for _ in range(25):
            clock.seconds += 1
            show(WorkerCounters(processed=1))
    assert capsys.readouterr().err.count("g on t: 1 processed") == 2


def test_on_a_terminal_the_line_moves(capsys: pytest.CaptureFixture[str]):
    with status("g on t", FakeClock(), is_terminal=True) as show:
        show(WorkerCounters(processed=1))
        show(WorkerCounters(processed=2))
    assert "g on t: 2 processed" in capsys.readouterr().err


def test_handlers_are_found_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "own_handlers.py").write_text("class Box:\n    def take(job): ...\nplain = len\nnumber = 7\n")
    (tmp_path / "broken_handlers.py").write_text("import no_such_dependency\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_handler("own_handlers:plain") is len
    assert load_handler("own_handlers:Box.take").__name__ == "take"
    for target, problem in {
        "own_handlers": "module:function",
        ":x": "module:function",
        "not_here:x": "no module 'not_here'",
        "own_handlers:number": "no function 'number'",
        "own_handlers:missing.deep": "no function",
    }.items():
        with pytest.raises(InvalidRequest, match=problem):
            load_handler(target)
    with pytest.raises(InvalidRequest, match=r"broken_handlers.py.*\n.*\nModuleNotFoundError") as caught:
        load_handler("broken_handlers:x")
    assert "importlib" not in caught.value.message, "only the user's own lines are shown"
