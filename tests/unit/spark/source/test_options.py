"""Options of the source: what they mean, and what a wrong one is told."""

import zlib

import pytest

from quiver.model.errors import InvalidRequest, QuiverError
from quiver.model.position import EARLIEST, LATEST, Position
from quiver_spark.options.kafka_names import READ_NAMES
from quiver_spark.source.columns import check_columns
from quiver_spark.source.options import column_options, read_options

NOW = 1_763_200_000_000


def test_what_is_taken_for_granted() -> None:
    options = read_options({"topic": "orders"}, now_ms=NOW)
    assert options.topics == ("orders",)
    assert options.bootstrap == "localhost:7481"
    assert options.start.at("orders", 3) == EARLIEST
    assert options.end is None
    assert options.committed
    assert options.fail_on_data_loss
    assert options.max_rows_per_trigger is None


def test_names_have_any_case_and_values_are_read() -> None:
    words = {"TOPICS": "a, b,a", "FailOnDataLoss": "FALSE", "minpartitions": "1_000", "Isolation": "read_uncommitted"}
    options = read_options(words, now_ms=NOW)
    assert options.topics == ("a", "b")
    assert not options.fail_on_data_loss
    assert options.min_partitions == 1000
    assert not options.committed


def test_places_by_partition_and_topic() -> None:
    start = '{"0": 17, "b": {"0": "latest", "1": "-1h"}}'
    places = read_options({"topics": "a,b", "start": start}, now_ms=NOW).start
    assert places.at("a", 0) == Position("offset", 17)
    assert places.at("a", 1) == EARLIEST
    assert places.at("b", 1) == Position("time", NOW - 3_600_000)
    end = read_options({"topic": "a", "end": '{"1": 5}'}, now_ms=NOW).end
    assert end is not None
    assert (end.at("a", 0), end.at("a", 1)) == (LATEST, Position("offset", 5))


def test_the_exception_for_a_topic_counts_more_than_that_for_all() -> None:
    places = read_options({"topics": "a,b", "start": '{"0": 17, "b": {"0": 3}}'}, now_ms=NOW).start
    assert places.at("b", 0) == Position("offset", 3)


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ('{"order": {"0": 4}}', "'start' names the topic 'order', and what is read is orders, prices"),
        ('{"7": 4}', "'start' names partition 7, which does not exist; orders, prices: 0 to 2"),
        ('{"prices": {"1": 4}}', "names partition 1, which does not exist; prices has only partition 0"),
    ],
)
def test_places_of_what_is_not_read(start: str, says: str) -> None:
    there = {"orders": 3, "prices": 1}
    options = read_options({"topics": "orders,prices", "start": start}, now_ms=NOW)
    with pytest.raises(InvalidRequest, match=says):
        options.check_positions(there)
    with pytest.raises(InvalidRequest, match=says.replace("start", "end")):
        read_options({"topics": "orders,prices", "end": start}, now_ms=NOW).check_positions(there)
    known = '{"2": 7, "prices": {"0": "latest"}}'
    read_options({"topics": "orders,prices", "start": known}, now_ms=NOW).check_positions(there)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"topik": "a"}, r"no option 'topik' for reading with quiver; did you mean 'topic'\? The options are boot"),
        ({"statingOffsets": "a"}, "did you mean 'startingOffsets'"),
        ({"kafka.security.protocol": "SSL"}, "it is a setting of Kafka's clients, leave it out"),
        ({"topic": "a", "subscribe": "b"}, "not topic and subscribe"),
        ({"topics": "a", "subscribe": "b"}, "'topics' and 'subscribe' mean the same"),
        ({"topic": "a", "startingTimestamp": "soon"}, "'soon' is not a time in epoch milliseconds"),
        ({"topic": "a", "startingOffsetsByTimestamp": "[1]"}, "'startingOffsetsByTimestamp' is not JSON of the form"),
        ({"topic": "a", "startingOffsets": '{"a": {"0": -3}}'}, "option 'startingOffsets': -3 is not an offset"),
        ({"topic": "a", "maxOffsetsPerTrigger": "5"}, "'maxOffsetsPerTrigger' is for streams"),
        ({"topic": "a", "followGroup": "g"}, "'followGroup' is for streams"),
        ({"assign": '{"a": [0, -1]}'}, "'assign': .* is not numbers such as 0,2, or JSON by topic"),
        ({"topic": "a", "assign": '{"a": [0]}'}, "not topic and assign"),
        (
            {},
            "there are no options. If this is a table made by CREATE TABLE.*CREATE TEMPORARY VIEW name USING quiver",
        ),
        ({"timeout": "5s"}, "name what to read by one of the options topic, topics"),
        ({"topic": "a", "topicPattern": "b"}, "not topic and topicPattern"),
        ({"topic": "a b"}, "'a b' is not a valid topic name"),
        ({"topic": "a", "start": "yesterday"}, "option 'start' 'yesterday'"),
        ({"topic": "a", "start": "{0: 1}"}, "option 'start' is not JSON"),
        ({"topic": "a", "end": '{"x": 1}'}, "'x' is not a partition"),
        ({"topic": "a", "start": "-2"}, r"-2 is not an offset; write earliest or latest, or a time ago .*\(-2s\)"),
        ({"topic": "a", "end": '{"0": -1}'}, "-1 is not an offset; write earliest or latest"),
        ({"topic": "a", "start": '{"a": {"0": "-2"}}'}, "-2 is not an offset"),
        ({"topic": "a", "failOnDataLoss": "maybe"}, "'maybe' is neither true nor false"),
        ({"topic": "a", "minPartitions": "0"}, "not a whole number from 1"),
        ({"topic": "a", "maxRowsPerTrigger": "5"}, "is for streams"),
        ({"topic": "a", "isolation": "dirty"}, "is not one of read_committed, read_uncommitted"),
        ({"topic": "a", "timeout": "soon"}, "is not a duration"),
        ({"topic": "a", "bootstrap": "a:b:c"}, "is not of the form host:port"),
        ({"topic": "a", "internal": "delivery"}, "name its data directory"),
        ({"topic": "a", "internal": "internal/coordination", "path": "/x"}, "leave 'topic' out"),
        ({"topic": "a", "path": "/x", "bootstrap": "localhost"}, "choose one"),
    ],
)
def test_wrong_options_say_what_to_do(options: dict[str, str], says: str) -> None:
    with pytest.raises(QuiverError, match=says):
        read_options(options, now_ms=NOW)


def test_the_names_of_kafka() -> None:
    options = {
        "kafka.bootstrap.servers": "a:1,b:2",
        "assign": '{"orders": [0, 2], "prices": [1]}',
        "startingOffsets": '{"orders": {"0": 17, "2": -1}, "prices": {"1": -2}}',
        "minOffsetsPerTrigger": "10",
        "maxOffsetsPerTrigger": "1000",
        "maxTriggerDelay": "2m",
        "maxRecordsPerPartition": "50",
        "kafka.isolation.level": "read_uncommitted",
        "kafka.request.timeout.ms": "1500",
        "groupIdPrefix": "reports",
    }
    found = read_options(options, now_ms=NOW, streaming=True)
    assert (found.bootstrap, found.topics, found.committed) == ("a:1,b:2", ("orders", "prices"), False)
    assert [found.reads("orders", number) for number in range(3)] == [True, False, True]
    assert not found.reads("prices", 0)
    places = [found.start.at("orders", 0), found.start.at("orders", 2), found.start.at("prices", 1)]
    assert places == [Position("offset", 17), LATEST, EARLIEST]
    assert (found.min_rows_per_trigger, found.max_rows_per_trigger) == (10, 1000)
    assert (found.max_trigger_delay_seconds, found.max_rows_per_partition, found.timeout_seconds) == (120, 50, 1.5)
    assert found.follow_group == "reports-" + format(zlib.crc32(options["assign"].encode()), "08x")
    with pytest.raises(InvalidRequest, match="names partition 2 of orders, which has 2"):
        found.check_positions({"orders": 2, "prices": 2})
    words = {"topic": "a", "minOffsetsPerTrigger": "10", "maxRowsPerTrigger": "9"}
    with pytest.raises(InvalidRequest, match="'minOffsetsPerTrigger' is 10, which is more than 'maxRowsPerTrigger'"):
        read_options(words, now_ms=NOW, streaming=True)
    for group in ({"followGroup": "reports-a"}, {"kafka.group.id": "reports-a"}, {"groupIdPrefix": "reports"}):
        assert read_options({"topic": "a", **group}, now_ms=NOW, streaming=True).follow_group == "reports-a"


_OF_READS = {
    "subscribe": ("a,b", {"topics": "a,b"}),
    "subscribePattern": ("a.*", {"topicPattern": "a.*"}),
    "assign": ('{"a": [0, 2]}', {"partitions": '{"a": [0, 2]}'}),
    "startingOffsets": ('{"a": {"0": -1, "1": 5}}', {"start": '{"a": {"0": "latest", "1": 5}}'}),
    "startingTimestamp": ("1000", {"start": "1970-01-01T00:00:01Z"}),
    "startingOffsetsByTimestamp": ('{"a": {"0": 1000}}', {"start": '{"a": {"0": "1970-01-01T00:00:01Z"}}'}),
    "startingOffsetsByTimestampStrategy": ("error", {"startTimeStrategy": "error"}),
    "endingOffsets": ('{"a": {"0": -1, "1": 5}}', {"end": '{"a": {"0": "latest", "1": 5}}'}),
    "endingTimestamp": ("2000", {"end": "1970-01-01T00:00:02Z"}),
    "endingOffsetsByTimestamp": ('{"a": {"0": 2000}}', {"end": '{"a": {"0": "1970-01-01T00:00:02Z"}}'}),
    "maxOffsetsPerTrigger": ("7", {"maxRowsPerTrigger": "7"}),
    "minOffsetsPerTrigger": ("7", {"minRowsPerTrigger": "7"}),
    "maxTriggerDelay": ("2m", {"maxTriggerDelay": "2m"}),
    "minPartitions": ("7", {"minPartitions": "7"}),
    "maxRecordsPerPartition": ("7", {"maxRowsPerPartition": "7"}),
    "failOnDataLoss": ("false", {"failOnDataLoss": "false"}),
    "groupIdPrefix": ("g", {"groupIdPrefix": "g"}),
    "kafka.bootstrap.servers": ("there:1", {"bootstrap": "there:1"}),
    "kafka.group.id": ("g", {"followGroup": "g"}),
    "kafka.isolation.level": ("read_uncommitted", {"isolation": "read_uncommitted"}),
    "kafka.fetch.max.bytes": ("1048576", {"fetchBytes": "1048576"}),
    "kafka.request.timeout.ms": ("1500", {"timeout": "1500ms"}),
}
"""What each name of Kafka's stands for, with a value that is not the default."""


@pytest.mark.parametrize("name", [*_OF_READS])
def test_each_name_of_kafka_is_one_of_ours(name: str) -> None:
    value, ours = _OF_READS[name]
    is_end, is_topic = name.startswith("ending"), not {"topics", "topicPattern", "partitions"}.isdisjoint(ours)
    topic = {} if is_topic else {"topic": "a"}
    found = read_options({**topic, name: value}, now_ms=NOW, streaming=not is_end)
    assert found == read_options({**topic, **ours}, now_ms=NOW, streaming=not is_end)
    assert found != read_options({"topic": "a"}, now_ms=NOW, streaming=not is_end)
    wrong = f"{name[:-1]}x{name[-1]}"
    with pytest.raises(
        InvalidRequest, match=rf"no option {wrong!r} for reading with quiver; did you mean {name!r}\?"
    ):
        read_options({**topic, wrong: value}, now_ms=NOW)


def test_the_table_has_every_name_of_kafka() -> None:
    assert READ_NAMES.keys() <= _OF_READS.keys()
    assert column_options({"includeHeaders": "false"}) != column_options({})


def test_times_of_kafka_are_times() -> None:
    words = {"subscribe": "a", "startingTimestamp": "1000", "endingOffsetsByTimestamp": '{"a": {"1": 2000}}'}
    found = read_options(words, now_ms=NOW)
    assert found.start.at("a", 0) == Position("time", 1000)
    assert found.end is not None
    assert (found.end.at("a", 0), found.end.at("a", 1)) == (LATEST, Position("time", 2000))


def test_partitions_of_all_topics() -> None:
    found = read_options({"topicPattern": "o.*", "partitions": "0,2"}, now_ms=NOW)
    assert [found.reads("orders", number) for number in range(4)] == [True, False, True, False]
    assert column_options({"includeHeaders": "false"}) == (False, None)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(InvalidRequest, match="'end' is for batch reads"):
        read_options({"topic": "a", "end": "latest"}, now_ms=NOW, streaming=True)
    assert (
        read_options({"topic": "a", "maxRowsPerTrigger": "5"}, now_ms=NOW, streaming=True).max_rows_per_trigger == 5
    )


def test_columns_are_those_there_are() -> None:
    assert check_columns([("offset", "bigint"), ("headers", "map<string,binary>")]) == ("offset", "headers")
    with pytest.raises(InvalidRequest, match="ask for offset bigint"):
        check_columns([("offset", "int")])
    with pytest.raises(InvalidRequest, match="ask for topic string, partition int"):
        check_columns([("body", "binary")])
