"""`quiver pipeline` without Spark: help costs nothing, and what is missing is named."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from quiver.cli.commands.pipeline import app

DOCUMENT = Path(__file__).parents[4] / "docs" / "pipelines.md"

_WITHOUT = "import sys; sys.modules['pyspark'] = sys.modules['deltalake'] = None\n"
_RUN = "from quiver.cli.main import run; status = run(sys.argv[1:])\n"


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)


def test_help_never_imports_spark() -> None:
    code = f"import sys, atexit\natexit.register(lambda: print('pyspark' in sys.modules))\n{_RUN}"
    for words in (["--help"], ["pipeline", "--help"], ["pipeline", "archive", "--help"]):
        done = python(code, *words)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("False\n")


@pytest.mark.parametrize("job", ["archive", "replay", "compact"])
def test_without_the_extra(job: str) -> None:
    words = {"archive": ["t", "--lake", "x"], "replay": ["t", "--into", "x"], "compact": ["t", "--into", "x"]}[job]
    done = python(f"{_WITHOUT}{_RUN}sys.exit(status)", "pipeline", job, *words)
    assert done.returncode == 1
    assert 'pip install "quivermq[spark]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_every_job_is_listed() -> None:
    done = python(f"import sys\n{_RUN}", "pipeline")
    assert app.info.help in done.stdout + done.stderr
    for name in ("archive", "replay", "compact"):
        assert f"  {name} " in done.stdout + done.stderr


def documented() -> list[str]:
    return [
        line
        for block in re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        for line in block.splitlines()
    ]


@pytest.mark.parametrize("line", documented())
def test_every_documented_command_is_understood(line: str) -> None:
    name, words, command = "pipeline", shlex.split(line.removeprefix("quiver pipeline ")), get_command(app)
    while isinstance(command, TyperGroup):
        context = command.make_context(name, words[:1])
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None
        command = found
    assert command.make_context(name, words).params
