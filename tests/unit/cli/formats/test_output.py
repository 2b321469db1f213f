"""Tables, JSON and YAML."""

import json

import pytest
import yaml

from quiver.cli.formats.output import Output, show_record, show_rows, shown, table

ROWS = [
    {"name": "orders", "partitions": 12, "retention": "7d", "limits": [1, 2], "on": True},
    {"name": "x", "partitions": 3, "retention": None, "limits": [], "on": False},
]


def test_a_table_has_a_head_and_aligned_columns() -> None:
    assert table(ROWS).splitlines() == [
        "NAME    PARTITIONS  RETENTION  LIMITS  ON",
        "orders          12  7d         1,2     true",
        "x                3  -                  false",
    ]


def test_an_empty_table_still_has_its_head() -> None:
    assert table([], ("name", "size_bytes")) == "NAME  SIZE"


def test_sizes_have_a_unit_in_tables_and_none_in_documents(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"size_bytes": size} for size in (0, 1023, 1024, 1536, 64 * 1024**2, 5 * 1024**5, None)]
    lines = [line.strip() for line in table(rows).splitlines()]
    assert lines == ["SIZE", "0 B", "1023 B", "1 KiB", "1.5 KiB", "64 MiB", "5 PiB", "-"]
    show_record({"segment_bytes": 64 * 1024**2}, Output.TABLE)
    assert capsys.readouterr().out.splitlines()[1].split() == ["segment_bytes", "64", "MiB"]
    show_record({"segment_bytes": 64 * 1024**2}, Output.JSON)
    assert json.loads(capsys.readouterr().out) == {"segment_bytes": 64 * 1024**2}


def test_columns_can_be_picked() -> None:
    assert table(ROWS, ("name",)).splitlines() == ["NAME", "orders", "x"]


def test_a_cell_is_always_one_line_and_sends_nothing_to_the_terminal() -> None:
    assert shown("a\n\x1b[2J") == "a\\x0a\\x1b[2J"


@pytest.mark.parametrize(("output", "decode"), [(Output.JSON, json.loads), (Output.YAML, yaml.safe_load)])
def test_documents_keep_types_and_order(capsys: pytest.CaptureFixture[str], output: Output, decode: object) -> None:
    show_rows(ROWS, output)
    assert decode(capsys.readouterr().out) == ROWS  # type: ignore[operator]
    show_record(ROWS[0], output)
    decoded = decode(capsys.readouterr().out)  # type: ignore[operator]
    assert list(decoded) == list(ROWS[0])


def test_an_empty_listing_is_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([], Output.JSON, columns=("name",))
    assert json.loads(capsys.readouterr().out) == []


def test_a_record_is_a_line_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    show_record({"name": "orders", "created": True}, Output.TABLE)
    assert capsys.readouterr().out.splitlines()[1:] == ["name     orders", "created  true"]
