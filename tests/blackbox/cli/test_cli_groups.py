"""`quiver group` and `quiver consume --group` against a running broker."""

import json
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

import quiver
from blackbox.processes.broker_process import QUIVER, BrokerProcess, wait_until
from blackbox.processes.cli_process import Cli, run_cli


@pytest.fixture
def topic(shared_broker: BrokerProcess) -> str:
    """Two partitions with 0 to 9 and 10 to 19."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with quiver.connect(shared_broker.address) as q:
        q.topics.create(name, partitions=2, durability="interval")
        with q.producer(name) as out:
            for number in range(20):
                out.send(b"%d" % number, partition=number // 10)
    return name


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def described(cli: Cli, group: str) -> Any:
    return json.loads(cli("group", "describe", group, "-o", "json").stdout)


def offsets(cli: Cli, group: str) -> dict[int, int | None]:
    return {part["partition"]: part["committed_offset"] for part in described(cli, group)["partitions"]}


def numbers(cli: Cli, topic: str, group: str, *arguments: str) -> list[int]:
    return sorted(int(line) for line in cli("consume", topic, "--group", group, *arguments).stdout.split())


@contextmanager
def following(cli: Cli, topic: str, group: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A member that follows; killed if the test does not end it. Unbuffered: `communicate` reads past buffers."""
    command = [str(QUIVER), "consume", topic, "-g", group, "-F", "-a", cli.address, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as member:
        try:
            yield member
        finally:
            member.kill()


def lines_of(member: subprocess.Popen[bytes], count: int) -> list[int]:
    assert member.stdout is not None
    return sorted(int(member.stdout.readline()) for _ in range(count))


def ended(member: subprocess.Popen[bytes], number: int) -> tuple[int, bytes, bytes]:
    member.send_signal(number)
    out, error = member.communicate(timeout=20)
    return member.returncode, out, error


def test_a_group_goes_on_where_it_was(cli: Cli, topic: str, group: str) -> None:
    first = numbers(cli, topic, group, "-n", "7")
    assert len(first) == 7
    assert sum(offset or 0 for offset in offsets(cli, group).values()) == 7
    assert sorted(first + numbers(cli, topic, group)) == list(range(20))
    assert numbers(cli, topic, group) == []
    assert offsets(cli, group) == {0: 10, 1: 10}
    assert described(cli, group)["state"] == "empty"
    assert numbers(cli, topic, f"{group}-other") == list(range(20))


def test_a_new_group_begins_where_from_says(cli: Cli, topic: str, group: str) -> None:
    assert numbers(cli, topic, group, "--from", "latest") == []
    cli("produce", topic, "20", "--partition", "1")
    again = cli("consume", topic, "--group", group, "--from", "earliest", "--format", "{partition}@{offset} {value}")
    assert again.stdout == b"1@10 20\n"
    assert b"--from is not used" in again.stderr
    assert numbers(cli, topic, f"{group}-5", "--from", "5") == [5, 6, 7, 8, 9, 15, 16, 17, 18, 19, 20]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_follower_that_is_stopped_commits_and_leaves(
    cli: Cli, topic: str, group: str, number: int, status: int
) -> None:
    with following(cli, topic, group) as member:
        assert lines_of(member, 20) == list(range(20))
        cli("produce", topic, "20", "--partition", "0")
        assert lines_of(member, 1) == [20]
        assert ended(member, number) == (status, b"", b"")
    details = described(cli, group)
    assert (details["state"], details["members"], details["lag"]) == ("empty", [], 0)
    assert offsets(cli, group) == {0: 11, 1: 10}


def test_what_a_stopped_follower_printed_is_what_the_group_has_read(cli: Cli, topic: str, group: str) -> None:
    cli("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(20, 200_000)))
    with following(cli, topic, group) as member:
        printed = lines_of(member, 1000)
        _, rest, error = ended(member, signal.SIGINT)
    printed += [int(line) for line in rest.split()]
    assert error == b""
    assert sorted(printed + numbers(cli, topic, group)) == list(range(200_000))


def test_members_share_the_partitions(cli: Cli, topic: str, group: str) -> None:
    with following(cli, topic, group) as one, following(cli, topic, group) as other:

        def shares() -> bool:
            with quiver.connect(cli.address) as q:
                known = group in [found.id for found in q.groups.list()]
                return known and [len(member.partitions) for member in q.groups.describe(group).members] == [1, 1]

        wait_until(shares, 20, "each member has a partition")
        details = described(cli, group)
        assert {part["owner"] for part in details["partitions"]} == {member["id"] for member in details["members"]}
        assert b"quiver-consume-" in cli("group", "describe", group).stdout
        cli("consume", topic, "--group", group)
        for refused in (("delete", group), ("reset", group, "--topic", topic, "--to", "latest")):
            assert b"2 members" in cli("group", *refused, fails=True).stderr
        cli("group", "reset", group, "--topic", topic, "--to", "latest", "--dry-run")
        assert ended(one, signal.SIGINT)[0] == 130
        assert ended(other, signal.SIGINT)[0] == 130
    assert described(cli, group)["lag"] == 0


def test_lag_in_messages_and_time(cli: Cli, topic: str, group: str) -> None:
    numbers(cli, topic, group)
    assert (described(cli, group)["lag"], described(cli, group)["lag_time"]) == (0, 0)
    cli("produce", topic, "a", "b", "c", "--partition", "1")
    details = described(cli, group)
    assert details["lag"] == 3
    assert details["lag_time"] == details["partitions"][1]["lag_time"] > 0
    assert details["partitions"][0]["lag_time"] == 0
    assert {"committed_offset": 10, "end_offset": 13, "lag": 3}.items() <= details["partitions"][1].items()
    listed = json.loads(cli("group", "list", "-o", "json").stdout)
    expected = {"id": group, "state": "empty", "members": 0, "topics": [topic], "lag": 3}
    assert expected.items() <= next(row for row in listed if row["id"] == group).items()
    assert yaml.safe_load(cli("group", "list", "-o", "yaml").stdout) == listed
    head = cli("group", "list").stdout.decode().splitlines()[0]
    assert head.split() == ["ID", "KIND", "STATE", "MEMBERS", "LAG", "LEASED", "RETRYING", "TOPICS"]


def test_a_reset_moves_the_group(cli: Cli, topic: str, group: str) -> None:
    numbers(cli, topic, group)

    def reset(*arguments: str) -> dict[int, tuple[int | None, int]]:
        done = json.loads(cli("group", "reset", group, "--topic", topic, *arguments, "-o", "json").stdout)
        return {int(number): (part["old"], part["new"]) for number, part in done["partitions"].items()}

    assert reset("--to", "earliest", "--dry-run") == {0: (10, 0), 1: (10, 0)}
    assert offsets(cli, group) == {0: 10, 1: 10}
    assert b"nothing was changed" in cli("group", "reset", group, "--topic", topic, "--to", "0", "--dry-run").stdout
    assert reset("--shift", "-3") == {0: (10, 7), 1: (10, 7)}
    assert numbers(cli, topic, group) == [7, 8, 9, 17, 18, 19]
    assert reset("--to", "5") == {0: (10, 5), 1: (10, 5)}
    assert reset("--to", "latest") == {0: (5, 10), 1: (5, 10)}
    assert reset("--to", "-2h") == {0: (10, 0), 1: (10, 0)}
    assert reset("--to", "2100-01-01T00:00:00Z") == {0: (0, 10), 1: (0, 10)}


def test_settings_and_deletion(cli: Cli, topic: str, group: str) -> None:
    numbers(cli, topic, group)
    altered = json.loads(cli("group", "alter", group, "--offsets-retention", "30d", "-o", "json").stdout)
    assert altered == {"id": group, "offsets_retention": "30d"}
    assert described(cli, group)["config"] == {"offsets_retention": "30d"}
    done = cli("group", "delete", group, "nobody", "-o", "json", fails=True)
    assert json.loads(done.stdout) == [{"id": group, "deleted": True}]
    assert b"nobody" in done.stderr
    assert group.encode() not in cli("group", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("group", "describe", "nobody"), "nobody"),
        (("group", "alter", "nobody"), "nothing to change"),
        (("group", "reset", "nobody", "--topic", "x"), "--shift"),
        (("group", "reset", "nobody", "--topic", "x", "--to", "1", "--shift", "1"), "--shift"),
        (("group", "reset", "nobody", "--topic", "x", "--to", "yesterday"), "yesterday"),
        (("consume", "x", "--group", "g", "--to", "latest"), "--to"),
        (("consume", "x", "--group", "g", "--partition", "0"), "--partition"),
        (("consume", "nowhere", "--group", "g"), "nowhere"),
        (("consume", "nowhere", "--group", "a b"), "a b"),
    ],
)
def test_errors_are_sentences(cli: Cli, arguments: tuple[str, ...], word: str) -> None:
    done = cli(*arguments, fails=True)
    assert (done.returncode, done.stdout) == (1, b"")
    assert word in done.stderr.decode()


def test_a_reader_that_stops_early_leaves_the_rest_to_the_group(cli: Cli, topic: str, group: str) -> None:
    cli("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(20, 50_000)))
    command = f"'{QUIVER}' consume {topic} -g {group} -a {cli.address} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert described(cli, group)["state"] == "empty"
    assert set(numbers(cli, topic, group)) >= set(range(40_000, 50_000))


def test_the_shell_completes_group_names(cli: Cli, topic: str, group: str) -> None:
    numbers(cli, topic, group)

    def complete(*words: str) -> list[str]:
        line = {"COMP_WORDS": " ".join(("quiver", *words)), "COMP_CWORD": str(len(words))}
        done = run_cli(cli.address, _QUIVER_COMPLETE="complete_bash", **line)
        assert done.stderr == b""
        return done.stdout.decode().split()

    assert complete("group", "de") == ["describe", "delete"]
    for words in (("group", "describe"), ("group", "reset"), ("group", "delete"), ("consume", topic, "--group")):
        assert group in complete(*words, group[:4])
    assert topic in complete("group", "reset", group, "--topic", topic[:4])
