"""A random walk through the SDK, with the broker inside the process, against a model that is a few lists."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import quiver
from quiver.structures.murmur2 import partition_for

PARTITIONS = 3
TOPIC = "walk"

keys = st.one_of(st.none(), st.binary(max_size=20), st.text(max_size=10))
values = st.one_of(st.none(), st.binary(max_size=200), st.text(max_size=50))
headers = st.one_of(st.none(), st.dictionaries(st.text(max_size=8), st.binary(max_size=8), max_size=3))
priorities = st.sampled_from([None, "critical", "high", "normal", "low", "background"])
times = st.one_of(st.none(), st.integers(0, 4_000_000_000_000))


def raw(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


class Walk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="quiver-walk-"))
        self.model: list[list[dict[str, Any]]] = [[] for _ in range(PARTITIONS)]
        self.first = [0] * PARTITIONS
        self.group_count = 0

    @initialize(durability=st.sampled_from(["fsync", "interval"]))
    def begin(self, durability: str) -> None:
        self.q = quiver.open(self.directory)
        self.q.topics.create(TOPIC, partitions=PARTITIONS, durability=durability, segment_bytes=65536)

    def teardown(self) -> None:
        self.q.close()
        shutil.rmtree(self.directory)

    def expect(self, place: Any, key: Any, value: Any, extra: dict[str, Any]) -> None:
        """Notes a message where the broker says it put it; a key decides the partition."""
        messages = self.model[place.partition]
        assert place.offset == self.first[place.partition] + len(messages)
        if key is not None and extra.get("partition") is None:
            assert place.partition == partition_for(raw(key), PARTITIONS)
        messages.append(
            {
                "key": raw(key),
                "value": raw(value),
                "headers": extra.get("headers") or {},
                "priority": extra.get("priority") or "normal",
                "timestamp": extra.get("timestamp"),
            }
        )

    @rule(
        key=keys,
        value=values,
        headers=headers,
        priority=priorities,
        timestamp=times,
        partition=st.one_of(st.none(), st.integers(0, PARTITIONS - 1)),
    )
    def publish(self, key: Any, value: Any, **extra: Any) -> None:
        self.expect(self.q.publish(TOPIC, value, key, **extra), key, value, extra)

    @rule(
        messages=st.lists(st.tuples(values, keys, headers, priorities), min_size=1, max_size=30),
        compression=st.sampled_from(["none", "lz4", "zstd"]),
        linger=st.sampled_from([0, "1ms"]),
    )
    def send(self, messages: list[tuple[Any, ...]], compression: str, linger: Any) -> None:
        with self.q.producer(TOPIC, compression=compression, linger=linger) as out:
            futures = [out.send(v, k, headers=h, priority=p) for v, k, h, p in messages]
            out.flush(30)
        places = [future.result(10) for future in futures]
        for place, (value, key, some, priority) in sorted(
            zip(places, messages, strict=True), key=lambda pair: (pair[0].partition, pair[0].offset)
        ):
            self.expect(place, key, value, {"headers": some, "priority": priority})

    @rule(many=st.lists(st.binary(max_size=50), min_size=1, max_size=500), partition=st.integers(0, PARTITIONS - 1))
    def send_many(self, many: list[bytes], partition: int) -> None:
        with self.q.producer(TOPIC) as out:
            spans = out.send_many(many, partition=partition).result(10)
        assert [span.partition for span in spans] == [partition] * len(spans)
        self.note_bulk(partition, [(None, value) for value in many])

    @rule(
        rows=st.lists(st.tuples(st.binary(max_size=10), st.binary(max_size=50)), min_size=1, max_size=200),
        partition=st.integers(0, PARTITIONS - 1),
    )
    def send_arrow(self, rows: list[tuple[bytes, bytes]], partition: int) -> None:
        table = pa.table({"key": [key for key, _ in rows], "value": [value for _, value in rows]})
        with self.q.producer(TOPIC) as out:
            out.send_arrow(table, partition=partition).result(10)
        self.note_bulk(partition, rows)

    def note_bulk(self, partition: int, rows: list[Any]) -> None:
        self.model[partition] += [
            {"key": key, "value": value, "headers": {}, "priority": "normal", "timestamp": None}
            for key, value in rows
        ]

    @rule()
    def restart(self) -> None:
        self.q.close()
        self.q = quiver.open(self.directory)

    @rule()
    def purge(self) -> None:
        self.q.topics.purge(TOPIC)
        self.first = [first + len(messages) for first, messages in zip(self.first, self.model, strict=True)]
        self.model = [[] for _ in range(PARTITIONS)]

    @invariant()
    def offsets_are_the_models(self) -> None:
        if hasattr(self, "q"):
            ends = [first + len(messages) for first, messages in zip(self.first, self.model, strict=True)]
            assert list(self.q.offsets(TOPIC, "latest").values()) == ends
            assert list(self.q.offsets(TOPIC, "earliest").values()) == self.first

    @rule(back=st.integers(0, 700))
    def read(self, back: int) -> None:
        starts = [max(first, first + len(m) - back) for first, m in zip(self.first, self.model, strict=True)]
        seen: list[list[Any]] = [[] for _ in range(PARTITIONS)]
        for message in self.q.read(TOPIC, start=dict(enumerate(starts)), end="latest"):
            seen[message.partition].append(message)
        for partition, messages in enumerate(seen):
            expected = self.model[partition][starts[partition] - self.first[partition] :]
            assert [m.offset for m in messages] == list(range(starts[partition], starts[partition] + len(expected)))
            for message, known in zip(messages, expected, strict=True):
                assert (message.key, message.value) == (known["key"], known["value"])
                assert (message.headers, message.priority) == (known["headers"], known["priority"])
                if known["timestamp"] is not None:
                    assert message.timestamp == known["timestamp"]

    @rule()
    def read_as_a_group(self) -> None:
        """Every group sees everything from the earliest message on, once."""
        total = sum(len(messages) for messages in self.model)
        self.group_count += 1
        group = f"g{self.group_count}"
        if total:
            with self.q.stream(TOPIC, group=group) as stream:
                seen = [(m.partition, m.offset) for _, m in zip(range(total), stream, strict=False)]
            assert len(set(seen)) == total
            assert sum(part.lag for part in self.q.groups.describe(group).partitions) == 0


Walk.TestCase.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
TestWalk = Walk.TestCase
