"""`quiver doctor` as a process, with its findings decoded."""

import json
from typing import Any

from blackbox.processes.cli_process import run_cli


def doctor(address: str, *arguments: str, status: int = 0, **environment: str) -> list[dict[str, Any]]:
    """The findings; any other exit status than `status` fails the test."""
    done = run_cli(address, "doctor", *arguments, "-o", "json", **environment)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode == status, done.stdout.decode() + done.stderr.decode()
    return list(json.loads(done.stdout)["findings"])


def found(findings: list[dict[str, Any]], check: str, *, verdict: str) -> list[dict[str, Any]]:
    """The findings of one check with one verdict."""
    return [each for each in findings if (each["check"], each["verdict"]) == (check, verdict)]
