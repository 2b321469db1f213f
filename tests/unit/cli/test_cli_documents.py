"""docs/cli.md and docs/configuration.md say what the program does."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from quiver.app.config import SETTINGS, Config, load_config, shown_values
from quiver.cli import main
from quiver.cli.options.config import parse_assignments
from quiver.model.topic import SETTING_NAMES

DOCS = Path(__file__).parents[3] / "docs"
CLI_TEXT = (DOCS / "cli.md").read_text()
CONFIGURATION_TEXT = (DOCS / "configuration.md").read_text()


def documented_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", CLI_TEXT, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if "quiver " in line]


def parse(words: list[str]) -> dict[str, Any]:
    """What a command line means, without running it; a SystemExit or usage error when it means nothing."""
    command, info = get_command(main.app), "quiver"
    while isinstance(command, main.LazyGroup) or hasattr(command, "commands"):
        if words and not words[0].startswith("-"):
            context = command.make_context(info, list(words), resilient_parsing=True)
            info, found, words = command.resolve_command(context, words)
            command = found
        else:
            break
    return dict(command.make_context(info, list(words)).params)


@pytest.mark.parametrize("line", documented_commands())
def test_every_documented_command_is_understood(line: str) -> None:
    command = line.split("|")[-1]
    words = shlex.split(command, comments=True)
    assert words[0] == "quiver"
    assert parse(words[1:])


def all_commands() -> list[str]:
    """Every command that can be run, without `quiver`: `serve`, `topic create`, ..."""
    return [" ".join(words) for words in _commands_below(get_command(main.app), ())]


def _commands_below(command: Any, words: tuple[str, ...]) -> list[tuple[str, ...]]:
    if not hasattr(command, "list_commands"):
        return [words]
    context = command.make_context("quiver", [], resilient_parsing=True)
    found = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return [below for name, child in found for below in _commands_below(child, (*words, name))]


@pytest.mark.parametrize("command", all_commands())
def test_every_command_is_documented(command: str) -> None:
    assert any(f"quiver {command} " in f"{line} " for line in documented_commands())


def test_the_documented_settings_are_all_there_are_with_their_defaults() -> None:
    of_the_broker = CONFIGURATION_TEXT.partition("## Defaults of topics")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| ", of_the_broker, re.MULTILINE)
    assert [name for name, _ in rows] == [setting.name for setting in SETTINGS]
    defaults = shown_values(Config())
    for name, documented in rows:
        value = documented.strip("`")
        given = load_config({name: None if value == "none" else value}, environment={})
        assert shown_values(given.config)[name] == defaults[name], name


def test_the_documented_file_is_a_valid_one(tmp_path: Path) -> None:
    [text] = re.findall(r"```toml\n(.*?)```", CONFIGURATION_TEXT, re.DOTALL)
    path = tmp_path / "quiver.toml"
    path.write_text(text)
    config = load_config(config_file=path, environment={}).config
    assert config.min_free_bytes == 2 * 1024**3
    assert config.topic_defaults.partitions == tomllib.loads(text)["topic"]["partitions"]


def test_the_documented_errors_are_the_real_ones(capsys: pytest.CaptureFixture[str]) -> None:
    [(command, output)] = re.findall(r"```\n\$ (.*?)\n(.*?)```", CONFIGURATION_TEXT, re.DOTALL)
    assert main.run(shlex.split(command)[1:]) == 1
    assert capsys.readouterr().err == output


def test_every_topic_setting_is_documented() -> None:
    for name in SETTING_NAMES:
        assert f"--{name.replace('_', '-')}`" in CLI_TEXT
    assert parse_assignments(["retention=24h"]) == {"retention": "24h"}
