"""`quiver group`: documents, tables and durations, without a broker."""

import json
import os
import subprocess
import sys

import pytest

from quiver.cli import main
from quiver.cli.commands import groups
from quiver.cli.commands.groups import _details, _fitting, _reset_document, _reset_row, _rough, _short
from quiver.protocol.group_messages import GroupDescription, GroupMember, GroupPartition, ResetPart

MEMBER = "web-0123456789abcdef"
DESCRIPTION = GroupDescription(
    id="billing",
    kind="stream",
    state="stable",
    protocol="cooperative",
    assignor="sticky",
    generation=3,
    members=[GroupMember(MEMBER, "web", None, 2000, 5000, [("orders", 1), ("orders", 0)])],
    partitions=[
        GroupPartition("orders", 1, 5, 9, 4, 61_500, MEMBER),
        GroupPartition("orders", 0, None, 2, 2, 1000, MEMBER),
        GroupPartition("emails", 0, 7, 7, 0, 0, None),
    ],
    settings={"offsets_retention": "7d"},
)


@pytest.mark.parametrize("words", [[], ["list"], ["describe"], ["alter"], ["reset"], ["delete"]])
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main.run(["group", *words, "--help"])
    assert caught.value.code == 0
    assert " ".join(["quiver group", *words]) in capsys.readouterr().out


@pytest.mark.parametrize("command", ["group", "consume"])
def test_help_loads_neither_the_sdk_nor_the_broker(command: str) -> None:
    program = (
        "import json, sys\n"
        "from quiver.cli.main import run\n"
        f"try: run([{command!r}, '--help'])\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"pyarrow", "numpy", "rich", "quiver.client", "quiver.broker.broker"} & set(json.loads(done.stderr))


def test_a_group_is_shown_in_order_with_its_totals() -> None:
    details = _details(DESCRIPTION)
    assert (details["lag"], details["lag_time"]) == (6, 61.5)
    assert details["topics"] == ["emails", "orders"]
    assert [(part["topic"], part["partition"]) for part in details["partitions"]] == [
        ("emails", 0),
        ("orders", 0),
        ("orders", 1),
    ]
    assert details["members"][0]["assigned_partitions"] == ["orders-0", "orders-1"]
    assert details["members"][0]["joined_at"] == "1970-01-01T00:00:02.000Z"


def test_a_group_without_partitions_has_no_lag() -> None:
    empty = GroupDescription("g", "stream", "empty", "cooperative", "sticky", 1, [], [], {})
    assert (_details(empty)["lag"], _details(empty)["lag_time"]) == (0, 0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.031, "31ms"),
        (5.547, "5s"),
        (61.5, "1m1s"),
        (3600, "1h"),
        (8107.031, "2h15m"),
        (90_061, "1d1h"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert _rough(seconds) == text


def test_ids_of_owners_are_cut_only_where_they_are_long() -> None:
    assert _short(MEMBER) == "..abcdef"
    assert _short("-") == "-"


@pytest.mark.parametrize(("is_terminal", "columns", "expected"), [
    (True, 10, "narrow"), (True, 100, "a wide one"), (False, 10, "a wide one"),
])  # fmt: skip
def test_tables_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, columns: int, expected: str
) -> None:
    monkeypatch.setattr(groups.sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setattr(groups, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    wide, narrow = [{"value": "a wide one", "more": "x"}], [{"value": "narrow"}]
    assert expected in _fitting(wide, narrow)


def test_a_reset_shows_old_and_new() -> None:
    assert _reset_row(ResetPart(0, 10, 7)) == {"partition": 0, "old": 10, "new": 7, "change": -3}
    assert _reset_row(ResetPart(1, None, 7))["change"] is None
    document = _reset_document("g", "t", [ResetPart(0, None, 7)], dry_run=True)
    assert document == {"id": "g", "topic": "t", "dry_run": True, "partitions": {"0": {"old": None, "new": 7}}}
