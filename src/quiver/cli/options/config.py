"""The flags of the broker's configuration, made from its table of settings, for `serve` and `config` alike."""

import inspect
from collections.abc import Mapping
from typing import Any

from quiver.app.config import SETTINGS, Config, LoadedConfig, Setting, load_config, shown_values
from quiver.cli.options.signature import option, with_options
from quiver.model.errors import InvalidSetting


def parse_assignments(words: list[str] | None) -> dict[str, str | None]:
    """NAME=VALUE words as a mapping; the value `none` means no limit."""
    settings: dict[str, str | None] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise InvalidSetting(f"{word!r} is not NAME=VALUE, such as retention=24h")
        settings[name.strip().replace("-", "_")] = value_or_none(value)
    return settings


def value_or_none(value: str) -> str | None:
    """A setting as typed: `none` takes a limit away."""
    return None if value.strip().lower() == "none" else value.strip()


_REPEATABLE = tuple(name for name in Config.__struct_fields__ if isinstance(getattr(Config(), name), tuple))


def _setting_option(setting: Setting, default: object) -> inspect.Parameter:
    if isinstance(default, bool):
        return option(setting.name, bool | None, help=setting.help)
    if setting.name in _REPEATABLE:
        return option(setting.name, list[str] | None, help=setting.help, metavar="VALUE")
    shown = "" if default is None else f" [default: {default}]"
    return option(setting.name, str | None, help=setting.help + shown, metavar="VALUE")


def _options() -> list[inspect.Parameter]:
    defaults = shown_values(Config())
    return [
        option("config", str | None, help="A TOML file with settings (or QUIVER_CONFIG).", metavar="FILE"),
        *(_setting_option(setting, defaults[setting.name]) for setting in SETTINGS),
        option(
            "topic",
            list[str] | None,
            help="A default setting for new topics; may be repeated.",
            metavar="NAME=VALUE",
        ),
    ]


def _load(values: Mapping[str, Any]) -> LoadedConfig:
    flags = {setting.name: values[setting.name] for setting in SETTINGS}
    return load_config(flags, topic_flags=parse_assignments(values["topic"]), config_file=values["config"])


with_config = with_options(_options(), "loaded", _load)
"""Gives a command the flags of every setting; it is called with the loaded configuration as `loaded`.

Values arrive as text and are read by `load_config`, which reports every bad one at once.
"""
