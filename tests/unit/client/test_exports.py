"""The public surface: what is exported, and what importing costs."""

import inspect
import subprocess
import sys

import pytest

import quiver
import quiver.client

LIGHT = """
import sys
import quiver
heavy = {"pyarrow", "numpy", "asyncio", "uvloop", "httptools", "typer"} & set(sys.modules)
print(",".join(sorted(heavy)))
"""


def test_importing_quiver_loads_nothing_heavy():
    found = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


@pytest.mark.parametrize(("used", "other"), [("Client", "_async"), ("AsyncClient", "_sync"), ("connect", "_async")])
def test_using_one_sdk_does_not_load_the_other(used, other):
    if used == "connect":
        program = "import quiver; quiver.connect('localhost:1', lazy=True)"
    else:
        program = f"import quiver; quiver.{used}"
    assert f"quiver.client.{other}.client" not in _modules_after(program)


def test_a_command_loads_the_synchronous_sdk_only():
    program = "from quiver.cli.main import run; run(['topic', 'list', '-a', 'localhost:1'])"
    loaded = _modules_after(program)
    assert "quiver.client._sync.client" in loaded
    assert not [name for name in loaded if name.startswith("quiver.client._async")]


def _modules_after(program: str) -> set[str]:
    found = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(found.stdout.split())


def test_every_name_is_there():
    for name in quiver.__all__:
        assert getattr(quiver, name) is not None
    assert set(quiver.client.__all__) < set(quiver.__all__)
    assert set(dir(quiver)) == set(quiver.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = quiver.nothing


@pytest.mark.parametrize(
    "name", ["Client", "Producer", "Reader", "SendFuture", "BulkSendFuture", "Work", "Job", "JobBatch"]
)
def test_both_sdks_have_the_same_verbs(name):
    def verbs(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {verb: list(inspect.signature(f).parameters) for verb, f in found if not verb.startswith("_")}

    assert verbs(getattr(quiver, name)) == verbs(getattr(quiver, f"Async{name}"))
