"""Prometheus and promtool as processes, for tests; they skip where the programs are not installed."""

import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from blackbox.processes.broker_process import free_port, wait_until

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0


def program(name: str) -> str:
    """Where promtool or prometheus is: on the path, or where scripts/system-packages puts it."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed (scripts/system-packages)")
    return found


def promtool(*arguments: str | Path) -> str:
    """Its output; anything but success fails the test."""
    command = [program("promtool"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class PrometheusProcess:
    """A Prometheus on a free port with a configuration and a data directory of the test's own."""

    def __init__(self, config: Path, directory: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._log_path = directory / "prometheus.log"
        command = [
            program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'prometheus'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--web.console.templates=/nonexistent",
            "--web.console.libraries=/nonexistent",
        ]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def get(self, path: str, **query: str) -> Any:
        """The data of a response of its API; AssertionError when it refuses the request."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return json.loads(response.read())["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{query}: {error.read().decode()}") from None

    def value(self, expression: str) -> float | None:
        """Of an expression with one series; None while there is none."""
        result = self.get("query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else None

    def wait_for(self, expression: str, value: float, seconds: float = 60.0) -> None:
        wait_until(lambda: self.value(expression) == value, seconds, f"{expression} is {value}")

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log_path.read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=10):
                return True
        except OSError:  # it does not listen yet, or says that it is not ready
            return False

    def __enter__(self) -> "PrometheusProcess":
        try:
            wait_until(self._is_ready, _START_SECONDS, "Prometheus is ready")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_SECONDS)
