"""Runs of popped messages as JSON: the quick way says the same as the careful one, or nothing."""

import json
from typing import Any

import pytest

from quiver.gateways.queen.json_rows import hex_column
from quiver.gateways.queen.messages import TRACE_HEADER, TRANSACTION_HEADER
from quiver.gateways.queen.pops.pop_json import PlainRun, plain_run
from quiver.records.build import build_frame
from quiver.records.read import open_frame


def run_of(values: list[bytes | None], **columns: Any) -> PlainRun | None:
    columns.setdefault("keys", [b"p"] * len(values))
    return plain_run(open_frame(build_frame(values, timestamp_ms=1, **columns), verify=False))


def named(*transactions: str) -> list[dict[str, bytes]]:
    return [{TRANSACTION_HEADER: each.encode()} for each in transactions]


@pytest.mark.parametrize("times", [1, 100])
def test_a_plain_run_is_the_json_of_its_messages(times: int) -> None:
    values: list[bytes | None] = [b"1", b'{"a":[1,"\xc3\xa4"]}', b'""', b"null"] * times
    run = run_of(values, headers=named("a", "b c", "ä", "d'") * times)
    assert run is not None
    shown = json.loads(b"[" + run.json(b"id-", b',"queue":"q"}') + b"]")
    assert [each["data"] for each in shown] == [json.loads(value or b"") for value in values]
    assert [each["transactionId"] for each in shown] == run.transaction_ids(b"id-")
    assert run.transaction_ids(b"id-") == ["a", "b c", "ä", "d'"] * times
    assert [each["id"] for each in shown] == [f"id-{offset:012x}" for offset in run.offsets]
    assert {(each["queue"], each["traceId"]) for each in shown} == {("q", None)}


@pytest.mark.parametrize("times", [1, 100])
def test_without_headers_the_ids_are_the_transaction_ids(times: int) -> None:
    run = run_of([b"1", b"2"] * times)
    assert run is not None
    shown = json.loads(b"[" + run.json(b"id-", b"}") + b"]")
    assert [each["transactionId"] for each in shown] == [each["id"] for each in shown] == run.transaction_ids(b"id-")


@pytest.mark.parametrize(
    "values",
    [
        [b"1", None],
        [b"1", b"text"],
        [b"1,2", b"3"],
        [b'{"a":1', b'"b":2},7'],
        [b"[1", b"2]"],
        [b"1", b""],
        [b"[1,\n2]", b"3"],
        [b"1\n2"],
        [b"\n", b"1", b"2"],
        [b'"\xff"', b"1"],
        [b"[" * 100_000, b"1"],
    ],
)
def test_values_that_are_not_json_each_need_care(values: list[bytes | None]) -> None:
    assert run_of(values) is None


@pytest.mark.parametrize(
    "headers",
    [
        named('a"', "b"),
        named("a\\", "b"),
        named("a\n", "b"),
        [{TRANSACTION_HEADER: b"\xff"}, {TRANSACTION_HEADER: b"b"}],
        [{TRANSACTION_HEADER: b"a"}, None],
        [{TRANSACTION_HEADER: b"a", TRACE_HEADER: b"t"}, {}],
        [{"other": b"a"}, {TRANSACTION_HEADER: b"b"}],
    ],
)
def test_headers_that_are_not_plain_need_care(headers: list[Any]) -> None:
    assert run_of([b"1", b"2"], headers=headers) is None


def test_ids_have_the_lower_48_bits_of_offsets() -> None:
    for count in (2, 200):
        column = hex_column([(1 << 48) + 5, *range(1, count)])
        found = column if isinstance(column, list) else column.to_pylist()
        assert found == [b"000000000005", *(b"%012x" % number for number in range(1, count))]


def test_several_keys_need_care() -> None:
    assert run_of([b"1", b"2"], keys=[b"p", b"q"]) is None
    assert run_of([b"1", b"2"], keys=[b"p", b"pq"]) is None
    assert run_of([b"1", b"2"], keys=[b"p", None]) is None
    assert run_of([b"1", b"2"], keys=None) is None
    empty = run_of([b"1", b"2"], keys=[b"", b""])
    assert empty is not None
    assert empty.key == b""
