"""`quiver txn`, and `quiver consume --isolation`, against the shipped broker."""

import json
import subprocess
import sys

import pytest

from blackbox.processes.cli_process import Cli
from quiver.model.errors import TransactionAborted


def test_list_describe_and_abort(q, cli: Cli) -> None:
    q.topics.create("orders", partitions=2)
    assert cli("txn", "list").stdout.split()[:2] == [b"TRANSACTION", b"ID"]
    tx, nameless = q.transactional("billing").begin(), q.transactional().begin()
    for open_one in (tx, nameless):
        open_one.publish("orders", b"x", partition=1)
        open_one.flush()
    listed = json.loads(cli("txn", "list", "-o", "json").stdout)
    assert listed["total"] == 2
    first = listed["transactions"][0]
    assert (first["transaction_id"], first["transactional_id"], first["state"]) == (tx.name, "billing", "open")
    assert (first["partitions"], first["groups"], first["timeout"]) == (["orders-1"], [], "1m")
    lines = cli("txn", "list").stdout.decode().splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [[tx.name, "billing", "open"], [nameless.name, "-", "open"]]
    one = cli("txn", "list", "--limit", "1")
    assert b"1 more: --skip 1" in one.stderr
    assert b"transactional_id: billing" in cli("txn", "describe", "billing", "-o", "yaml").stdout
    assert json.loads(cli("txn", "describe", nameless.name, "-o", "json").stdout)["transactional_id"] is None
    aborted = json.loads(cli("txn", "abort", nameless.name, "-o", "json").stdout)
    assert (aborted["transaction_id"], aborted["state"]) == (nameless.name, "aborted")
    assert b"only an open transaction" in cli("txn", "abort", nameless.name, fails=True).stderr
    assert b"quiver txn list" in cli("txn", "describe", "nobody", fails=True).stderr
    cli("txn", "abort", "billing")
    with pytest.raises(TransactionAborted):
        tx.commit()


def test_consume_shows_what_is_committed_unless_asked(q, cli: Cli) -> None:
    q.topics.create("shown", partitions=1)
    with q.transaction("shown") as tx:
        tx.publish("shown", b"committed")
    tx = q.transactional("shown").begin()
    tx.publish("shown", b"aborted")
    tx.flush()
    tx.abort()
    with q.transaction("shown") as tx:
        tx.publish("shown", b"open")
        tx.flush()
        q.publish("shown", b"behind")
        everything = b"committed\naborted\nopen\nbehind\n"
        uncommitted = ("--isolation", "read_uncommitted")
        assert cli("consume", "shown").stdout == b"committed\n"
        assert cli("consume", "shown", *uncommitted).stdout == everything
        assert cli("consume", "shown", "--group", "clean").stdout == b"committed\n"
        assert cli("consume", "shown", "--group", "dirty", *uncommitted).stdout == everything
    assert cli("consume", "shown", "--group", "clean").stdout == b"open\nbehind\n"
    assert cli("consume", "shown", "--group", "clean").stdout == b""
    assert q.groups.describe("clean").partitions[0].lag == 0
    assert cli("consume", "shown", "--isolation", "dirty", fails=True).returncode == 2


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys\nfrom quiver.cli.main import run\n"
        "try:\n    run(['txn', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'pyarrow', 'numpy', 'asyncio', 'quiver.client'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert all(word in found.stdout for word in ("list", "describe", "abort"))
    assert found.stdout.splitlines()[-1] == "[]"
