"""The wheel installed without extras: the SDK is whole, and the broker's packages are neither there nor missed."""

from pathlib import Path

import pytest

from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.thin_install import ROOT, ThinInstall

NOT_NEEDED = {"httptools", "pydantic", "pyyaml", "rich", "typer", "uvloop", "zstandard"}

CLIENT = """
import sys
import quiver

address = sys.argv[1]
with quiver.connect(address) as q:
    q.topics.create("thin", partitions=1, exist_ok=True)
    q.publish("thin", {"id": 1}, key="k")
    with q.producer("thin", compression="zstd") as out:
        out.send_many([b"a", b"b"])
    assert [m.value for m in q.read("thin", end="latest")] == [b'{"id":1}', b"a", b"b"]
    with q.stream("thin", group="thin-stream") as messages:
        assert next(iter(messages)).json() == {"id": 1}
    with q.work("thin", group="thin-work") as jobs:
        job = jobs.next_job()
        with q.transaction("thin") as tx:
            tx.publish("thin", b"done")
            tx.ack(job)
    q.schedules.add("@every 1h", "thin", b"tick", name="thin")
    q.schedules.remove("thin")

async def use():
    async with quiver.connect_async(address) as q:
        await q.publish("thin", b"async")
        assert [m.value async for m in q.read("thin", end="latest")][-1] == b"async"

import asyncio
asyncio.run(use())
ours = {name.split(".")[1] for name in sys.modules if name.startswith("quiver.")}
assert ours == {"client", "model", "protocol", "records", "structures", "system"}, ours
assert "cronsim" not in sys.modules
print("whole")
"""

EMBEDDED = """
import quiver

with quiver.open(":memory:") as q:
    q.topics.create("thin")
    q.schedules.add("0 3 * * *", "thin", b"tick", timezone="Europe/Berlin")
    q.publish("thin", b"x")
    assert [m.value for m in q.read("thin", end="latest")] == [b"x"]
print("whole")
"""


@pytest.fixture(scope="module")
def thin(tmp_path_factory: pytest.TempPathFactory) -> ThinInstall:
    return ThinInstall(tmp_path_factory.mktemp("thin"))


def test_it_brings_none_of_the_brokers_packages(thin: ThinInstall):
    assert {"msgspec", "numpy", "pyarrow", "google-crc32c"} <= thin.installed
    assert not thin.installed & NOT_NEEDED
    assert thin.python("import httptools").returncode == 1


def test_the_wheel_has_the_files_of_the_console(thin: ThinInstall):
    source = ROOT / "src" / "quiver" / "console"
    expected = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    packed = thin.packages / "quiver" / "console"
    assert {str(path.relative_to(packed)) for path in packed.rglob("*") if path.is_file()} == expected
    assert {"index.html", "app.js", "lib/dom.js", "style/tokens.css"} <= expected


def test_a_client_of_a_running_broker(thin: ThinInstall, shared_broker: BrokerProcess):
    done = thin.python(CLIENT, shared_broker.address)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


def test_a_broker_inside_the_process(thin: ThinInstall):
    done = thin.python(EMBEDDED)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


@pytest.mark.parametrize(("command", "extra"), [("serve", "server"), ("consume", "cli"), ("--help", "cli")])
def test_the_command_says_what_to_install(thin: ThinInstall, command: str, extra: str):
    done = thin.quiver(command)
    assert done.returncode == 1
    assert done.stderr == f"quiver: typer is not installed here; pip install 'quivermq[{extra}]'\n"


def test_the_command_line_without_the_server(tmp_path: Path, shared_broker: BrokerProcess):
    cli = ThinInstall(tmp_path, "cli")
    assert not cli.installed & {"uvloop", "httptools", "zstandard"}
    done = cli.quiver("--address", shared_broker.address, "topic", "list", "--output", "yaml")
    assert done.returncode == 0, done.stderr
    done = cli.quiver("serve", "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "is not installed here; pip install 'quivermq[server]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()
