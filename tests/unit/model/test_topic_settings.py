import pytest

from quiver.model.errors import InvalidName, InvalidSetting
from quiver.model.names import check_name
from quiver.model.topic import TopicConfig


def test_settings_read_back_what_they_say() -> None:
    config = TopicConfig().changed({"partitions": 6, "retention": "1h", "durability": "interval", "ttl": "30s"})
    assert TopicConfig().changed(config.settings()) == config
    assert config.settings()["retention"] == "1h"


def test_every_bad_setting_is_named_at_once() -> None:
    with pytest.raises(InvalidSetting) as caught:
        TopicConfig().changed({"partitions": 0, "durability": "maybe", "colour": "red", "retention": "soon"})
    for name in ("partitions", "durability", "colour", "retention"):
        assert repr(name) in caught.value.message


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\0b", "a" * 241, "naïve", "a b", None, 7, "../../etc/passwd", "a\n"]
)
def test_names_that_are_refused(name: object) -> None:
    with pytest.raises(InvalidName):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "orders.v1_x-Y", "a" * 240, "...", "0"])
def test_names_that_are_fine(name: str) -> None:
    assert check_name(name) == name


def test_a_segment_rolls_after_a_quarter_of_the_retention_but_at_least_daily() -> None:
    assert TopicConfig(retention_ms=4000).roll_after_ms == 1000
    assert TopicConfig(retention_ms=None).roll_after_ms == 86_400_000
    assert TopicConfig(retention_ms=1).roll_after_ms == 1


def test_labels_are_a_mapping_or_written_as_in_a_shell() -> None:
    config = TopicConfig().changed({"labels": "team=billing, tier = 1"})
    assert config.labels == {"team": "billing", "tier": "1"}
    assert TopicConfig().changed(config.settings()) == config
    assert config.changed({"labels": {}}).labels == {}


@pytest.mark.parametrize(
    "labels", ["team", {"a b": "c"}, {"": "c"}, {"a": 1}, {"a": "x" * 1025}, {f"n{n}": "" for n in range(33)}, ["a"]]
)
def test_labels_that_are_refused(labels: object) -> None:
    with pytest.raises(InvalidSetting, match="label"):
        TopicConfig().changed({"labels": labels})
