"""The command tree: what is listed, what is loaded for it, and the flags that come from tables."""

import inspect
import json
import subprocess
import sys

import pytest
from typer.main import get_command

from quiver.app.config import SETTINGS
from quiver.cli import main
from quiver.cli.commands import config, serve, topics
from quiver.cli.commands.produce import parse_headers
from quiver.cli.options.config import parse_assignments
from quiver.cli.options.signature import option, with_options
from quiver.model.errors import InvalidRequest, InvalidSetting
from quiver.model.topic import SETTING_NAMES

COMMANDS = [
    "serve",
    "topic",
    "produce",
    "consume",
    "search",
    "group",
    "dlq",
    "delayed",
    "schedule",
    "txn",
    "trace",
    "work",
    "pipeline",
    "cluster",
    "top",
    "doctor",
    "storage",
    "config",
]


def loaded_modules(*arguments: str) -> set[str]:
    """The modules in memory after a command line, in a fresh interpreter."""
    program = (
        "import json, sys\n"
        "from quiver.cli.main import run\n"
        f"try: run({list(arguments)!r})\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


def flags_of(app: object) -> set[str]:
    command = get_command(app)  # type: ignore[arg-type]
    return {flag for parameter in command.params for flag in parameter.opts if flag.startswith("--")}


def test_help_loads_nothing_heavy() -> None:
    """`quiver --help` stays under 200 ms because of what it does not import."""
    heavy = {
        "pyarrow",
        "numpy",
        "rich",
        "msgspec",
        "asyncio",
        "uvloop",
        "httptools",
        "quiver.client",
        "quiver.app.config",
    }
    assert not heavy & loaded_modules("--help")


def test_the_help_of_a_command_loads_neither_the_sdk_nor_the_broker() -> None:
    heavy = {"pyarrow", "numpy", "rich", "uvloop", "httptools", "quiver.client", "quiver.broker.broker"}
    for command in COMMANDS:
        assert not heavy & loaded_modules(command, "--help")


def test_the_commands_are_the_promised_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.run(["--help"])
    listed = capsys.readouterr().out.split("Commands:")[1]
    assert [line.split()[0] for line in listed.splitlines() if line.strip()] == COMMANDS


@pytest.mark.parametrize(
    "words", [[name] for name in COMMANDS] + [["topic", name] for name in ("list", "create", "alter")]
)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main.run([*words, "--help"])
    assert caught.value.code == 0
    assert f"quiver {' '.join(words)}" in capsys.readouterr().out


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main.run(["sevre"])
    assert caught.value.code == 2
    assert "sevre" in capsys.readouterr().err


def test_every_setting_is_a_flag_of_serve_and_config() -> None:
    expected = {f"--{setting.name.replace('_', '-')}" for setting in SETTINGS} | {"--config", "--topic"}
    assert flags_of(serve.app) - {"--help"} == expected
    assert flags_of(config.app) - {"--help", "--output"} == expected


@pytest.mark.parametrize("name", ["create", "alter"])
def test_every_topic_setting_is_a_flag(name: str) -> None:
    group = get_command(topics.app)
    flags = {flag for parameter in group.commands[name].params for flag in parameter.opts}  # type: ignore[attr-defined]
    assert {f"--{setting.replace('_', '-')}" for setting in SETTING_NAMES} <= flags


def test_config_prints_values_and_origins(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIVER_NATIVE_PORT", "9001")
    with pytest.raises(SystemExit) as caught:
        main.run(["config", "--http-port", "9000", "--topic", "retention=none", "--output", "json"])
    assert caught.value.code == 0
    rows = {row["setting"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["http_port"] == {"setting": "http_port", "value": 9000, "origin": "flag --http-port"}
    assert rows["native_port"]["origin"] == "environment QUIVER_NATIVE_PORT"
    assert rows["topic.retention"]["value"] is None
    assert rows["host"]["origin"] == "default"


def test_an_error_is_a_sentence_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["config", "--http-port", "x", "--sync-threads", "y"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("quiver: ") for line in lines)


def test_assignments() -> None:
    assert parse_assignments(["retention=24h", "max-message-bytes=5", "ttl=None"]) == {
        "retention": "24h",
        "max_message_bytes": "5",
        "ttl": None,
    }
    assert parse_assignments(None) == {}
    for word in ("retention", "=5", ""):
        with pytest.raises(InvalidSetting):
            parse_assignments([word])


def test_headers() -> None:
    assert parse_headers(["a=1", "b=x=y", "c="]) == {"a": b"1", "b": b"x=y", "c": b""}
    assert parse_headers(None) is None
    with pytest.raises(InvalidRequest):
        parse_headers(["no value"])


def test_options_from_a_table_replace_one_parameter() -> None:
    seen: list[object] = []

    @with_options([option("size", str | None)], "made", lambda values: values["size"])
    def command(name: str, made: str, loud: bool = False) -> None:
        seen.append((name, made, loud))

    assert list(inspect.signature(command).parameters) == ["name", "loud", "size"]
    command(name="x", loud=True, size="5")
    assert seen == [("x", "5", True)]
