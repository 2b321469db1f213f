"""Runs of popped messages as JSON: the quick way says the same as the careful one, or nothing."""

import json
from typing import Any

import pytest

from quiver.gateways.queen.messages import TRACE_HEADER, TRANSACTION_HEADER
from quiver.gateways.queen.pops.pop_json import PlainRun, plain_run
from quiver.records.build import build_frame
from quiver.records.read import open_frame


def run_of(values: list[bytes | None], **columns: Any) -> PlainRun | None:
    columns.setdefault("keys", [b"p"] * len(values))
    return plain_run(open_frame(build_frame(values, timestamp_ms=1, **columns), verify=False))


def named(*transactions: str) -> list[dict[str, bytes]]:
    return [{TRANSACTION_HEADER: each.encode()} for each in transactions]


def test_a_plain_run_is_the_json_of_its_messages() -> None:
    values = [b"1", b'{"a":[1,"\xc3\xa4"]}', b'""', b"null"]
    run = run_of(values, headers=named("a", "b c", "ä", "d'"))
    assert run is not None
    shown = json.loads(b"[" + run.json(b"id-", b',"queue":"q"}') + b"]")
    assert [each["data"] for each in shown] == [json.loads(value) for value in values]
    assert [each["transactionId"] for each in shown] == ["a", "b c", "ä", "d'"] == run.transaction_ids(b"id-")
    assert [each["id"] for each in shown] == [f"id-{offset:012x}" for offset in run.offsets]
    assert {(each["queue"], each["traceId"]) for each in shown} == {("q", None)}


def test_without_headers_the_ids_are_the_transaction_ids() -> None:
    run = run_of([b"1", b"2"])
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


def test_several_keys_need_care() -> None:
    assert run_of([b"1", b"2"], keys=[b"p", b"q"]) is None
    assert run_of([b"1", b"2"], keys=[b"p", b"pq"]) is None
    assert run_of([b"1", b"2"], keys=[b"p", None]) is None
    assert run_of([b"1", b"2"], keys=None) is None
    empty = run_of([b"1", b"2"], keys=[b"", b""])
    assert empty is not None
    assert empty.key == b""
