"""What the README shows, run as it is written, against a broker on other ports."""

import itertools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^    ((?:\.venv/bin/quiver|curl) .*)$", README, re.MULTILINE)


def test_the_first_screen_has_the_two_commands() -> None:
    first_screen = README.splitlines()[:15]
    for target in ("run", "test"):
        assert any(line.strip().startswith(f"make {target} ") for line in first_screen)
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_make_run_takes_the_data_directory_of_the_environment(tmp_path: Path) -> None:
    dry_run = ["make", "--dry-run", "--no-print-directory", "run"]
    shown = subprocess.run(dry_run, cwd=ROOT, capture_output=True, text=True, check=True)
    command = shown.stdout.splitlines()[-1].replace("serve", "config").split()
    environment = os.environ | {"QUIVER_DATA_DIR": str(tmp_path / "mine")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert str(tmp_path / "mine") in done.stdout


def test_the_examples(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    plain = (example for example in EXAMPLES if "spark" not in example)
    first, group, queue, transaction = (example.replace("localhost:7481", broker.address) for example in plain)

    class Enough(Exception):
        pass

    for run in (1, 2):  # whoever tries them tries them again
        exec(first, {})
        assert len(capsys.readouterr().out.splitlines()) == 6, "a line a partition"
        with quiver.connect(broker.address) as q:
            stored = sum(1 for _ in q.read("orders", end="latest"))
            assert stored == 100_001 * run + (run - 1), "the last example publishes one too"
        shown = itertools.count(1)

        def show(value: object, shown: "itertools.count[int]" = shown) -> None:
            if next(shown) == 1000:
                raise Enough

        with pytest.raises(Enough):
            exec(group, {"quiver": quiver, "print": show})
        exec(queue, {"quiver": quiver})
        assert capsys.readouterr().out.splitlines() == ["1 b'welcome'", "1 b'how was it?'"]
        exec(transaction, {"quiver": quiver})
        with quiver.connect(broker.address) as q:
            receipts = [message.value for message in q.read("receipts", end="latest")]
            assert len(receipts) == run
            assert all(receipt.startswith(b"receipt for ") for receipt in receipts)


def test_the_commands(broker: BrokerProcess) -> None:
    for run in range(2):
        created, produced, consumed, published, received = _run_commands(broker)
        assert "news" in created
        assert len(json.loads(received)["messages"]) >= 3
        assert "news" in produced
        if run == 0:  # later on, which partition comes first is open
            assert consumed.split() == ["hello", "world"]
        assert len(consumed.splitlines()) == 2
        assert '"offset"' in published


def _run_commands(broker: BrokerProcess) -> list[str]:
    outputs = []
    for command in COMMANDS:
        words = command.replace("localhost:7480", broker.http.removeprefix("http://"))
        done = subprocess.run(
            words,
            shell=True,
            cwd=ROOT,
            env={"QUIVER_ADDRESS": broker.address, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        outputs.append(done.stdout)
    return outputs
