"""The shipped command line as a process, for tests."""

import os
import subprocess
from typing import Any

from blackbox.processes.broker_process import QUIVER
from blackbox.processes.program import can_be_forked, run_program


def run_cli(
    address: str, *arguments: str, stdin: bytes | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Runs `quiver ARGUMENTS` to its end, with QUIVER_ADDRESS and no other QUIVER_* variable of the caller."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("QUIVER_")}
    variables |= {"QUIVER_ADDRESS": address} | environment
    if can_be_forked(environment):
        return run_program(arguments, variables, stdin=stdin, timeout=60)
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run(
        [str(QUIVER), *arguments], capture_output=True, env=variables, check=False, timeout=60, **given
    )


class Cli:
    """The command against one broker; anything but exit status 0 fails the test unless `fails`."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __call__(
        self, *arguments: str, stdin: bytes | None = None, fails: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        done = run_cli(self.address, *arguments, stdin=stdin)
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        assert (done.returncode != 0) == fails, done.stderr.decode() + done.stdout.decode()
        return done
