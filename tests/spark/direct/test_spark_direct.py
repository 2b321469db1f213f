"""Direct reads of segment files: the same rows as through the broker, beside it and without it."""

import contextlib
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.data_files import append_bytes, flip_bit, segments, stored_frames
from blackbox.processes.tcp_proxy import Fault, TcpProxy
from quiver.protocol.messages import Fetch
from quiver.reader.data_directory import DataDirectory
from quiver_spark.source.catalogue import plan
from quiver_spark.source.frames import MAX_BATCH_ROWS, read_slice
from quiver_spark.source.options import read_options
from spark.topic_rows import (
    Row,
    begin_transaction,
    end_transaction,
    mixed_topic,
    new_topic,
    publish,
    read_rows,
    sdk_rows,
    without,
)

Mixed = tuple[str, list[Row], list[Row]]


@pytest.fixture(scope="module")
def mixed(spark_broker: BrokerProcess) -> Mixed:
    """A topic, its committed rows, and all of them."""
    topic, aborted = mixed_topic(spark_broker)
    uncommitted = read_rows(topic=topic, bootstrap=spark_broker.address, isolation="read_uncommitted")
    return topic, without(sdk_rows(spark_broker, topic), aborted), uncommitted


def last_segment(data_dir: Path, topic: str) -> Path:
    topic_id = DataDirectory(data_dir).topic(topic).id
    return segments(data_dir / "logs" / "topics" / str(topic_id) / "0")[-1]


def test_the_same_rows_beside_the_broker(spark_broker: BrokerProcess, mixed: Mixed) -> None:
    topic, committed, uncommitted = mixed
    for words in ({}, {"minPartitions": 20}):
        assert read_rows(topic=topic, path=spark_broker.data_dir, **words) == committed
    assert read_rows(topic=topic, path=spark_broker.data_dir, isolation="read_uncommitted") == uncommitted


def test_a_copy_that_nobody_may_write(spark_broker: BrokerProcess, mixed: Mixed, tmp_path: Path) -> None:
    topic, committed, _ = mixed
    copy = tmp_path / "copy"
    shutil.copytree(spark_broker.data_dir, copy)
    before = _files(copy)
    assert read_rows(topic=topic, path=copy) == committed
    assert _files(copy) == before
    for index in copy.rglob("*.index"):
        index.unlink()
    assert read_rows(topic=topic, path=copy, minPartitions=9) == committed


def _files(directory: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in directory.rglob("*")}


def test_transactions_that_are_open(spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 5)
    who = begin_transaction(spark_broker, topic, 0, "in it")
    publish(spark_broker, topic, 5)
    assert len(read_rows(topic=topic, path=spark_broker.data_dir)) == 5
    assert len(read_rows(topic=topic, path=spark_broker.data_dir, isolation="read_uncommitted")) == 11
    end_transaction(spark_broker, "abort", who)
    assert len(read_rows(topic=topic, path=spark_broker.data_dir)) == 10


def test_times_and_offsets(spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, segment_bytes=65_536)
    for _ in range(20):
        publish(spark_broker, topic, 500)
    for words in ({"start": "-1m"}, {"end": "earliest"}, {"start": '{"0": 700}', "end": '{"1": 90}'}):
        through_broker = read_rows(topic=topic, bootstrap=spark_broker.address, **words)
        assert read_rows(topic=topic, path=spark_broker.data_dir, **words) == through_broker
    middle = sdk_rows(spark_broker, topic)[5000].append_time_ms
    at = datetime.fromtimestamp(middle / 1000, UTC).isoformat()
    later = read_rows(topic=topic, path=spark_broker.data_dir, start=at)
    assert 0 < len(later) < 10_000
    assert later == read_rows(topic=topic, bootstrap=spark_broker.address, start=at)


def test_the_torn_end_of_a_log(spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 10)
    publish(spark_broker, topic, 10)
    copy = tmp_path / "copy"
    shutil.copytree(spark_broker.data_dir, copy)
    segment = last_segment(copy, topic)
    whole = segment.read_bytes()
    last = stored_frames(segment)[-1]
    for cut in (last.end - 8, last.position + 90, last.position + 7):
        segment.write_bytes(whole[:cut])
        assert [row.offset for row in read_rows(topic=topic, path=copy)] == list(range(last.header.base_offset))
    segment.write_bytes(whole + b"\0" * 500)
    assert len(read_rows(topic=topic, path=copy)) == 20


def test_damage_is_an_error_that_names_it(spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic = new_topic(spark_broker, partitions=1)
    for _ in range(3):
        publish(spark_broker, topic, 10)
    copy = tmp_path / "copy"
    shutil.copytree(spark_broker.data_dir, copy)
    segment = last_segment(copy, topic)
    frames = stored_frames(segment)
    flip_bit(segment, frames[0].position + 100)
    with pytest.raises(quiver.errors.CorruptData, match=f"damaged data in {topic}-0: .*checksum"):
        read_rows(topic=topic, path=copy)
    good = read_rows(topic=topic, path=copy, start=str(frames[0].header.next_offset))
    assert good == sdk_rows(spark_broker, topic)[frames[0].header.record_count :]


def test_frames_of_a_later_version(spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 10)
    copy = tmp_path / "copy"
    shutil.copytree(spark_broker.data_dir, copy)
    segment = last_segment(copy, topic)
    later = bytearray(segment.read_bytes())
    later[2] = 2
    append_bytes(segment, bytes(later))
    with pytest.raises(quiver.errors.UnsupportedVersion, match=f"{topic}-0 has frames of version 2.*pip install"):
        read_rows(topic=topic, path=copy)


def test_frames_of_a_later_version_through_the_broker(spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 10)
    says = f"{topic}-0 has frames of version 2"
    later = Rewriting(spark_broker.address, b"QV\x01", b"QV\x02")
    with later as address, pytest.raises(quiver.errors.UnsupportedVersion, match=says):
        read_rows(topic=topic, bootstrap=address)


class Rewriting:
    """Passes connections on to a broker and changes some bytes of its responses."""

    def __init__(self, target: str, old: bytes, new: bytes) -> None:
        self._target, self._old, self._new = target, old, new
        self._listener = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> str:
        threading.Thread(target=self._serve, daemon=True).start()
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(self, *error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        host, port = self._target.split(":")
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection((host, int(port)))
                for words in ((client, broker, b"", b""), (broker, client, self._old, self._new)):
                    threading.Thread(target=self._pump, args=words, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, old: bytes, new: bytes) -> None:
        while data := source.recv(1 << 20):
            sink.sendall(data.replace(old, new) if old else data)


def test_connections_that_break_while_a_slice_is_read(spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    for _ in range(10):
        publish(spark_broker, topic, 500)
    faults = [Fault.CUT_AFTER, Fault.PASS, Fault.CUT_BEFORE, Fault.CUT_AFTER]
    with TcpProxy(spark_broker.address, lambda n: faults[n % 4] if n < 12 else Fault.PASS, kinds=(Fetch,)) as proxy:
        found = read_rows(topic=topic, bootstrap=proxy.address, fetchBytes=65_536)
    assert found == sdk_rows(spark_broker, topic)
    assert proxy.done[Fault.CUT_AFTER] > 1


def test_large_and_small_frames_make_batches_of_one_size(spark_broker: BrokerProcess) -> None:
    topic, count = new_topic(spark_broker, partitions=1), 100_000
    with quiver.connect(spark_broker.address) as client:
        with client.producer(topic, batch_messages=count, batch_bytes=8 << 20) as producer:
            producer.send_many([b""] * count)
        for _ in range(20):
            publish(spark_broker, topic, 100)
    options = read_options({"topic": topic, "bootstrap": spark_broker.address}, now_ms=0)
    for words in (options, options._replace(bootstrap="", path=str(spark_broker.data_dir))):
        [slice_] = plan(words, cores=1)
        batches = list(read_slice(slice_, words, ["offset"]))
        offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        assert offsets == list(range(count + 2000))
        assert max(batch.num_rows for batch in batches) <= MAX_BATCH_ROWS
        assert len(batches) <= 4


def test_files_of_a_broker_on_the_same_machine(spark_broker: BrokerProcess) -> None:
    topic, _ = mixed_topic(spark_broker)
    for words in ({}, {"isolation": "read_uncommitted"}, {"start": "7", "end": "50"}):
        found = read_rows(topic=topic, bootstrap=spark_broker.address, localFiles="true", **words)
        assert found == read_rows(topic=topic, bootstrap=spark_broker.address, **words)
    plain, in_memory = new_topic(spark_broker), new_topic(spark_broker, durability="memory")
    for name in (plain, in_memory):
        publish(spark_broker, name, 100)
        assert len(read_rows(topic=name, bootstrap=spark_broker.address, localFiles="true")) == 100
    assert _bytes_sent(spark_broker, plain) == 0 < _bytes_sent(spark_broker, in_memory)


def test_files_that_several_workers_of_a_broker_write(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker("--workers", "2")
    topic = new_topic(broker, partitions=4)
    publish(broker, topic, 100)
    for worker in (0, 1):
        assert len(read_rows(topic=topic, bootstrap=broker.address, localFiles="true")) == 100
        options = read_options({"topic": topic, "bootstrap": broker.address}, now_ms=0)
        assert {slice_.files and slice_.files.path for slice_ in plan(options, cores=2)} == {str(broker.data_dir)}
        broker.kill_worker(worker)


def test_tasks_do_not_import_pandas(spark_broker: BrokerProcess) -> None:
    """It takes a second in each of Spark's Python processes."""
    topic, _ = mixed_topic(spark_broker)
    program = f"""
import sys
from quiver_spark.source.catalogue import plan
from quiver_spark.source.frames import read_slice
from quiver_spark.source.narrow.keys import read_keys
from quiver_spark.source.narrow.summaries import summaries
from quiver_spark.source.options import read_options
options = read_options({{"topic": "{topic}", "bootstrap": "{spark_broker.address}"}}, now_ms=0)
for slice_ in plan(options, cores=2):
    assert list(read_slice(slice_, options))
    assert list(read_keys(slice_, options, ("topic", "value"), frozenset([b"key-1", b"t"])))
    assert list(summaries(slice_, options, ("topic", "priority", "offset")))
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_files_that_another_broker_uses_are_not_read(spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 100)
    options = read_options({"topic": topic, "bootstrap": spark_broker.address}, now_ms=0)
    [slice_] = plan(options, cores=1)
    assert slice_.files is not None
    assert slice_.files.path == str(spark_broker.data_dir)
    elsewhere = slice_._replace(files=slice_.files._replace(started_at_ms=1))
    assert sum(batch.num_rows for batch in read_slice(elsewhere, options)) == 100
    assert _bytes_sent(spark_broker, topic) > 0
    assert not plan(options._replace(local_files=False), cores=1)[0].files


def _bytes_sent(broker: BrokerProcess, topic: str) -> float:
    """What the broker has sent of a topic's messages."""
    with urlopen(f"{broker.http}/metrics", timeout=10) as answer:
        lines = [line for line in answer.read().decode().splitlines() if f'topic="{topic}"' in line]
    return sum(float(line.split()[-1]) for line in lines if line.startswith("quiver_read_bytes_total"))


def test_internal_logs(spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 10)
    with quiver.connect(spark_broker.address) as client, client.work(topic, group="g") as work:
        next(iter(work)).ack()
    events = read_rows(internal="internal/coordination", path=spark_broker.data_dir)
    assert any(topic.encode() in (row.value or b"") for row in events)
    assert {row.topic for row in events} == {"internal/coordination"}
    deliveries = read_rows(internal="delivery", topic=topic, path=spark_broker.data_dir)
    assert deliveries
    assert {(row.topic, row.partition) for row in deliveries} == {(topic, 0)}


def test_what_cannot_be_read_directly(spark_broker: BrokerProcess, tmp_path: Path) -> None:
    checks: list[tuple[dict[str, object], str]] = [
        ({"topic": "t", "path": tmp_path}, "there is no data directory of a broker in"),
        ({"topic": "no-such", "path": spark_broker.data_dir}, "there is no topic 'no-such' in"),
        ({"topic": "t", "path": tmp_path, "bootstrap": "localhost"}, "choose one"),
        ({"internal": "nothing", "topic": "t", "path": spark_broker.data_dir}, "neither a log such as"),
        ({"internal": "internal/nothing", "path": spark_broker.data_dir}, "there is no log internal/nothing"),
    ]
    for words, says in checks:
        with pytest.raises(quiver.QuiverError, match=says):
            read_rows(**words)


def test_a_log_that_grows_and_shrinks_while_it_is_read(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    topic = new_topic(broker, partitions=1, segment_bytes=65_536)
    stop = threading.Event()

    def fill() -> None:
        while not stop.is_set():
            publish(broker, topic, 2000)

    filling = threading.Thread(target=fill)
    filling.start()
    try:
        for _ in range(10):
            found = read_rows(topic=topic, path=broker.data_dir)
            assert [row.offset for row in found] == list(range(len(found)))
    finally:
        stop.set()
        filling.join()
    assert read_rows(topic=topic, path=broker.data_dir) == sdk_rows(broker, topic)
    options = read_options({"topic": topic, "path": str(broker.data_dir)}, now_ms=0)
    [slice_] = plan(options, cores=1)
    with quiver.connect(broker.address) as client:
        client.topics.purge(topic)
    with pytest.raises(quiver.errors.OffsetOutOfRange, match=f"of {topic}-0 are gone"):
        list(read_slice(slice_, options))
