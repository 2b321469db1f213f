"""The SDK's types as mypy sees them in a user's program."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("typed_program.py")


def test_a_users_program_is_checked_as_it_says(tmp_path: Path) -> None:
    """Strict mypy also refuses a `type: ignore` on a line that is fine."""
    options = ["--strict", "--config-file=", f"--cache-dir={tmp_path}"]
    found = subprocess.run([sys.executable, "-m", "mypy", *options, PROGRAM], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
