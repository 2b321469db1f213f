"""Which columns of a DataFrame the sink takes, and how rows are put together and split."""

import pyarrow as pa
import pytest

from quiver.model.errors import InvalidRequest
from quiver_spark.options.kafka_names import WRITE_NAMES
from quiver_spark.sink.columns import check_written
from quiver_spark.sink.options import write_options
from quiver_spark.sink.row_groups import RowGroup, row_groups


def _batch(**columns: list[object]) -> pa.RecordBatch:
    types = {"value": pa.binary(), "key": pa.binary(), "priority": pa.string(), "partition": pa.int32()}
    types["topic"] = pa.string()
    return pa.record_batch({name: pa.array(items, types[name]) for name, items in columns.items()})


def _brief(group: RowGroup) -> tuple[int, int | None, list[object]]:
    return group.place.priority, group.place.partition, group.rows.column("value").to_pylist()


def test_small_batches_are_put_together_and_empty_ones_left_out() -> None:
    batches = [_batch(value=[b"%d" % n]) for n in range(5)]
    found = list(row_groups([_batch(value=[]), *batches, _batch(value=[])], ["value"]))
    assert [_brief(group) for group in found] == [(2, None, [b"0", b"1", b"2", b"3", b"4"])]
    assert list(row_groups([_batch(value=[])], ["value"])) == []


def test_a_large_batch_is_not_held_back() -> None:
    drawn = []

    def batches() -> object:
        for number in range(3):
            drawn.append(number)
            yield _batch(value=[bytes(1024)] * 5_000)

    first = next(row_groups(batches(), ["value"]))  # type: ignore[arg-type]
    assert first.rows.num_rows == 5_000
    assert drawn == [0]


def test_columns_that_are_not_asked_for_stay_behind() -> None:
    (group,) = row_groups([_batch(value=[b"a"], key=[b"k"], partition=[3])], ["value", "key"])
    assert group.rows.schema.names == ["value", "key"]
    assert group.place.partition is None


def test_rows_are_split_by_priority_and_partition_in_their_order() -> None:
    batch = _batch(
        value=[b"a", b"b", b"c", b"d", b"e", b"f"],
        priority=["low", "HIGH", None, "low", "high", "low"],
        partition=[1, 0, None, 1, 0, None],
    )
    found = list(row_groups([batch], ["value", "priority", "partition"]))
    assert sorted((_brief(group) for group in found), key=str) == [
        (1, 0, [b"b", b"e"]),
        (2, None, [b"c"]),
        (3, 1, [b"a", b"d"]),
        (3, None, [b"f"]),
    ]
    assert all(group.rows.schema.names == ["value"] for group in found)


def test_rows_are_split_by_topic() -> None:
    batch = _batch(value=[b"a", b"b", b"c", b"d"], topic=["x", "y", "x", "x"], partition=[1, None, None, 1])
    found = list(row_groups([batch], ["value", "topic", "partition"]))
    assert sorted(((group.place.topic, *_brief(group)) for group in found), key=str) == [
        ("x", 2, 1, [b"a", b"d"]),
        ("x", 2, None, [b"c"]),
        ("y", 2, None, [b"b"]),
    ]
    (one,) = row_groups([_batch(value=[b"a", b"b"], topic=["x", "x"])], ["value", "topic"])
    assert (one.place.topic, *_brief(one)) == ("x", 2, None, [b"a", b"b"])


def test_rows_of_several_topics_are_gathered_until_there_is_enough_for_each() -> None:
    batches = [_batch(value=[bytes(1024)] * 3, topic=["x", "y", "x"]) for _ in range(6_000)]
    found = list(row_groups(batches, ["value", "topic"]))
    assert len(found) <= 6, "4 MiB of each"
    rows = {topic: sum(each.rows.num_rows for each in found if each.place.topic == topic) for topic in "xy"}
    assert rows == {"x": 12_000, "y": 6_000}
    many = [_batch(value=[bytes(20 * 1024)] * 8, topic=[str(n) for n in range(8)]) for _ in range(300)]
    sizes = [group.rows.nbytes for group in row_groups(many, ["value", "topic"])]
    assert len(sizes) == 16, "what was gathered goes after 32 MiB"


def test_one_priority_for_all_needs_no_sorting() -> None:
    batch = _batch(value=[b"a", b"b"], priority=["critical", "critical"])
    (group,) = row_groups([batch], ["value", "priority"])
    assert _brief(group) == (0, None, [b"a", b"b"])


def test_large_partition_numbers() -> None:
    batch = _batch(value=[b"a", b"b"], partition=[99_999, 0])
    assert [_brief(group) for group in row_groups([batch], ["value", "partition"])] == [
        (2, 0, [b"b"]),
        (2, 99_999, [b"a"]),
    ]


@pytest.mark.parametrize(
    ("column", "items", "problem"),
    [
        ("priority", ["low", "urgent"], "priority 'urgent' is not one of"),
        ("partition", [None, -1], "-1 is negative"),
        ("topic", ["x", None], "column 'topic' is null"),
    ],
)
def test_values_that_cannot_be_meant(column: str, items: list[object], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        list(row_groups([_batch(value=[b"a", b"b"], **{column: items})], ["value", column]))


def test_columns_of_a_read_can_be_written_as_they_are() -> None:
    read = [
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("append_time", "timestamp"),
        ("key", "binary"),
        ("value", "binary"),
        ("headers", "map<string,binary>"),
        ("priority", "string"),
    ]
    names = ("timestamp", "key", "value", "headers", "priority")
    assert check_written(read, use_partition_column=False) == names
    assert check_written(read, use_partition_column=True) == ("partition", *names)
    assert check_written(read, use_partition_column=False, use_topic_column=True) == ("topic", *names)
    of_kafka = [("value", "binary"), ("headers", "array<struct<key:string,value:binary>>")]
    assert check_written(of_kafka, use_partition_column=False, include_headers=False) == ("value",)


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ([("key", "binary")], "there is no column 'value'; select value, key"),
        ([("value", "struct<a:int>")], "column 'value' is struct<a:int>; the quiver sink takes binary or string"),
        ([("value", "binary"), ("valeu", "binary")], "has no column 'valeu'"),
        ([("value", "binary"), ("value", "binary")], "there are two columns 'value'"),
        ([("value", "binary"), ("timestamp", "bigint")], "takes timestamp: cast it"),
        ([("value", "binary"), ("partition", "bigint")], "takes int: cast it"),
    ],
)
def test_columns_that_do_not_fit(types: list[tuple[str, str]], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        check_written(types, use_partition_column=False)


def test_the_partition_column_must_be_there_when_it_is_asked_for() -> None:
    with pytest.raises(InvalidRequest, match="needs a column 'partition'"):
        check_written([("value", "binary")], use_partition_column=True)
    with pytest.raises(InvalidRequest, match="by the option topic, or that of each row by a column 'topic'"):
        check_written([("value", "binary")], use_partition_column=False, use_topic_column=True)


def test_options_are_read_whatever_their_case_and_sparks_own_are_left_alone() -> None:
    found = write_options(
        {
            "TOPIC": "orders",
            "transactiontimeout": "2h",
            "checkpointLocation": "/c",
            "queryName": "q",
            "usePartitionColumn": "true",
            "includeHeaders": "FALSE",
        },
        streaming=True,
    )
    assert (found.topic, found.transaction_timeout_ms, found.checkpoint) == ("orders", 7_200_000, "/c")
    assert found.use_partition_column
    assert not found.include_headers
    assert found.compression == "none"


_OF_WRITES = {
    "topic": ("a", {"topic": "a"}),
    "kafka.bootstrap.servers": ("there:1", {"bootstrap": "there:1"}),
    "kafka.compression.type": ("zstd", {"compression": "zstd"}),
    "kafka.transaction.timeout.ms": ("120000", {"transactionTimeout": "2m"}),
    "kafka.request.timeout.ms": ("1500", {"timeout": "1500ms"}),
}
"""What each name of Kafka's stands for, with a value that is not the default."""


@pytest.mark.parametrize("name", [*_OF_WRITES])
def test_each_name_of_kafka_is_one_of_ours(name: str) -> None:
    assert WRITE_NAMES.keys() <= _OF_WRITES.keys()
    value, ours = _OF_WRITES[name]
    assert write_options({name: value}) == write_options(ours) != write_options({})
    wrong = f"{name[:-1]}x{name[-1]}"
    with pytest.raises(
        InvalidRequest, match=rf"no option {wrong!r} for writing with quiver; did you mean {name!r}\?"
    ):
        write_options({wrong: value})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"topick": "a"}, r"did you mean 'topic'\?"),
        ({"topic": "a", "path": "/x"}, "there is no option 'path' for writing with quiver"),
        ({"topic": "a", "transactionTimeout": "25h"}, "from 1s to 24h"),
        ({"topic": "a", "transactionTimeout": "soon"}, "is not a duration"),
        ({"topic": "a", "compression": "gzip"}, "is not one of none, lz4, zstd"),
        ({"topic": "a", "usePartitionColumn": "yes"}, "neither true nor false"),
        ({"topic": "a", "commitKey": "x" * 1001}, "at most 1000 characters"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        write_options(options)


def test_a_stream_has_no_commit_key_of_its_own() -> None:
    with pytest.raises(InvalidRequest, match="for batch writes"):
        write_options({"topic": "a", "commitKey": "k"}, streaming=True)
