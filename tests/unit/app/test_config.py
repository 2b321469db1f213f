"""The configuration: precedence, origins, and every error at once."""

import os
from pathlib import Path

import msgspec
import pytest

from quiver.app.config import SETTINGS, Config, LoadedConfig, load_config, shown_values
from quiver.app.config_values import worker_count
from quiver.app.embedded import EmbeddedBroker
from quiver.model.errors import InvalidSetting
from quiver.model.limits import MIB, Limits
from quiver.model.topic import SETTING_NAMES


def load(flags: dict[str, object] | None = None, **rest: object) -> LoadedConfig:
    rest.setdefault("environment", {})
    return load_config(flags, **rest)  # type: ignore[arg-type]


def problems(**arguments: object) -> list[str]:
    with pytest.raises(InvalidSetting) as caught:
        load(**arguments)  # type: ignore[arg-type]
    return caught.value.message.splitlines()


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "quiver.toml"
    path.write_text(text)
    return path


def test_without_any_source_everything_is_a_default() -> None:
    loaded = load()
    assert loaded.config == Config()
    assert set(loaded.origins.values()) == {"default"}


def test_the_ports_and_the_host_are_the_promised_ones() -> None:
    config = load().config
    assert (config.host, config.http_port, config.native_port) == ("127.0.0.1", 7480, 7481)
    assert config.auto_create is False


def test_the_default_limits_are_those_of_the_model() -> None:
    assert load().config.limits == Limits()


def test_every_field_has_a_setting_and_every_setting_a_field() -> None:
    no_settings = {"topic_defaults"}
    fields = {field.name for field in msgspec.structs.fields(Config)} - no_settings
    assert {setting.attribute for setting in SETTINGS} == fields


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    path = toml(tmp_path, 'http_port = 1001\nnative_port = 1002\nhost = "file.example"\nlog_level = "debug"\n')
    environment = {"QUIVER_HTTP_PORT": "2001", "QUIVER_NATIVE_PORT": "2002"}
    loaded = load({"http_port": "3001", "native_port": None}, environment=environment, config_file=path)
    config, origins = loaded.config, loaded.origins
    assert (config.http_port, config.native_port, config.host) == (3001, 2002, "file.example")
    assert origins["http_port"] == "flag --http-port"
    assert origins["native_port"] == "environment QUIVER_NATIVE_PORT"
    assert origins["host"] == f"file {path}"
    assert origins["sync_threads"] == "default"


def test_the_file_can_be_named_in_the_environment(tmp_path: Path) -> None:
    path = toml(tmp_path, "auto_create = true\n")
    assert load(environment={"QUIVER_CONFIG": str(path)}).config.auto_create is True


def test_a_flag_names_the_file_over_the_environment(tmp_path: Path) -> None:
    path = toml(tmp_path, "sync_threads = 3\n")
    loaded = load(config_file=path, environment={"QUIVER_CONFIG": "/does/not/exist"})
    assert loaded.config.sync_threads == 3


def test_every_problem_of_every_source_is_reported_at_once(tmp_path: Path) -> None:
    path = toml(tmp_path, 'http_prot = 1\nlog_level = "loud"\n[topic]\nretention = "soon"\n')
    found = problems(
        flags={"native_port": "many"},
        config_file=path,
        environment={"QUIVER_SYNC_THREADS": "0", "QUIVER_AUTO_CREATE": "perhaps"},
        topic_flags={"partitions": "none at all"},
    )
    assert len(found) == 7
    text = "\n".join(found)
    for word in ("http_prot", "log_level", "topic.retention", "QUIVER_SYNC_THREADS", "QUIVER_AUTO_CREATE"):
        assert word in text
    assert "flag --native-port" in text
    assert "topic.partitions (flag --topic)" in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), ("a = = 1", "Invalid value"), (b"\xff\xfe", "codec"), ("topic = 3\n", "not a table")],
)
def test_a_file_that_cannot_be_read_is_a_problem_like_any_other(
    tmp_path: Path, content: str | bytes | None, reason: str
) -> None:
    path = tmp_path / "broken.toml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = problems(config_file=path, environment={"QUIVER_HTTP_PORT": "x"})
    assert len(found) == 2
    assert str(path) in found[0]
    assert reason in found[0]


@pytest.mark.parametrize("value", ["65536", "-1", "7480.5", "", "٣", "true"])
def test_a_port_that_is_none_is_refused(value: str) -> None:
    assert "http_port" in problems(environment={"QUIVER_HTTP_PORT": value})[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1048576", MIB), ("64MiB", 64 * MIB), ("1.5 g", 1536 * MIB), ("512k", MIB // 2), ("2GB", 2048 * MIB)],
)
def test_sizes_are_bytes_or_have_a_unit(value: str, expected: int) -> None:
    assert load({"min_free_bytes": value}).config.min_free_bytes == expected


@pytest.mark.parametrize("value", ["-1", "lots", "1XiB", "99999999999999999999", True, 1.5, None.__class__])
def test_a_size_that_is_none_is_refused(value: object) -> None:
    assert "min_free_bytes" in problems(flags={"min_free_bytes": value})[0]


def test_durations_are_read_as_everywhere() -> None:
    assert load({"slow_client_timeout": "1m30s"}).config.slow_client_timeout_ms == 90_000


def test_limits_that_contradict_each_other_are_refused() -> None:
    found = problems(flags={"max_message_bytes": "32MiB", "max_frame_bytes": "16MiB"})
    assert "max_message_bytes" in found[0]
    assert "max_frame_bytes" in found[0]


def test_ports_must_differ_unless_they_are_picked() -> None:
    assert "differ" in problems(flags={"http_port": "9000", "native_port": "9000"})[0]
    assert problems(flags={"queen_port": "7480"}) == ["http_port and queen_port are both 7480; they must differ"]
    assert problems(flags={"queen_port": "7481"}) == ["native_port and queen_port are both 7481; they must differ"]
    assert load({"http_port": "0", "native_port": "0", "queen_port": "0"}).config.http_port == 0


def test_topic_defaults_come_from_file_environment_and_flags(tmp_path: Path) -> None:
    path = toml(tmp_path, '[topic]\npartitions = 6\nretention = "1d"\ndurability = "interval"\n')
    loaded = load(
        config_file=path, environment={"QUIVER_TOPIC_RETENTION": "2d"}, topic_flags={"durability": "memory"}
    )
    defaults = loaded.config.topic_defaults.settings()
    assert (defaults["partitions"], defaults["retention"], defaults["durability"]) == (6, "2d", "memory")
    assert loaded.origins["topic.retention"] == "environment QUIVER_TOPIC_RETENTION"
    assert loaded.origins["topic.ttl"] == "default"


def test_an_empty_advertise_means_none() -> None:
    assert load({"advertise": ""}).config.advertise is None


def test_the_home_directory_is_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load({"data_dir": "~/broker"}).config.data_dir == tmp_path / "broker"


def test_variables_of_others_are_left_alone() -> None:
    """Kubernetes sets QUIVER_SERVICE_HOST and QUIVER_PORT for a service of that name."""
    assert (
        load(environment={"QUIVER_SERVICE_HOST": "10.0.0.1", "QUIVER_PORT": "tcp://10.0.0.1:80"}).config == Config()
    )


def test_shown_values_can_be_read_again() -> None:
    shown = shown_values(load({"slow_client_timeout": "45s", "data_dir": "x/y"}).config)
    assert set(shown) == {s.name for s in SETTINGS} | {f"topic.{name}" for name in SETTING_NAMES}
    again = load({name: value for name, value in shown.items() if not name.startswith("topic.")})
    assert shown_values(again.config) == shown


def test_the_number_of_workers() -> None:
    assert worker_count("3") == worker_count(3) == 3
    assert worker_count("auto") == len(os.sched_getaffinity(0))
    for wrong in ("0", "many", 1.5, 65):
        with pytest.raises(ValueError, match="is not a whole number from 1 to 64, nor auto"):
            worker_count(wrong)
    assert load_config({"workers": "2"}, environment={}).config.workers == 2
    with pytest.raises(InvalidSetting, match="several workers"):
        load_config({"workers": 2, "storage": "postgresql://u@h/d"}, environment={})
    with pytest.raises(InvalidSetting, match="a broker inside a process is that one process"):
        EmbeddedBroker(Config(workers=2))
