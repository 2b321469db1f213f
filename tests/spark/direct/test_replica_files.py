"""Reads of the files of a cluster's node on this machine: what is committed, and nothing else."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import quiver
from blackbox.cluster.replicated_nodes import Nodes
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.data_files import append_bytes, segments, stored_frames
from etcd_cluster import program, running_etcd
from quiver.reader.log_reader import LogReader
from quiver.records.header import stamp
from quiver_spark.direct.replica_files import log_of_replica
from quiver_spark.source.catalogue import plan
from quiver_spark.source.frames import read_slice
from quiver_spark.source.options import ReadOptions, read_options
from quiver_spark.source.slices import Slice
from spark.topic_rows import mixed_topic, new_topic, publish, read_rows, sdk_rows, without


def offsets_and_values(slice_: Slice, options: ReadOptions) -> list[tuple[int, bytes]]:
    batches = [batch.to_pydict() for batch in read_slice(slice_, options, ["offset", "value"])]
    return [row for batch in batches for row in zip(batch["offset"], batch["value"], strict=True)]


def append_uncommitted(log: LogReader) -> None:
    """The last frame once more, as a leader of an earlier epoch would have written it before it was deposed."""
    segment = segments(log.directory)[-1]
    last = stored_frames(segment)[-1]
    frame, header = segment.read_bytes()[last.position : last.end], last.header
    again = stamp(
        frame, header, base_offset=header.next_offset, leader_epoch=header.leader_epoch - 1, append_time_ms=0
    )
    append_bytes(segment, bytes(again.header_bytes) + bytes(again.body))


@pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")
def test_files_of_a_cluster(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    with running_etcd() as etcd:
        cluster = Nodes("files", etcd, tmp_path, start_broker)
        topic, aborted = mixed_topic(cluster.nodes[1])
        rows = without(sdk_rows(cluster, topic), aborted)
        assert read_rows(topic=topic, bootstrap=cluster.address, localFiles="true") == rows

        topic = new_topic(cluster, partitions=1)
        publish(cluster, topic, 10)
        options = read_options({"topic": topic, "bootstrap": cluster.address}, now_ms=0)
        [committed] = plan(options, cores=1)
        log = log_of_replica(committed, options)
        assert log is not None
        assert len(offsets_and_values(committed, options)) == 10

        hung = next(node for node in cluster.nodes.values() if node.data_dir in log.directory.parents)
        hung.send_signal(signal.SIGSTOP)
        append_uncommitted(log)
        others = ",".join(node.address for node in cluster.nodes.values() if node is not hung)
        with quiver.connect(others) as client:
            with client.producer(topic) as producer:
                producer.send_many([b"after %d" % number for number in range(10)])
            expected = [(message.offset, message.value) for message in client.read(topic, start=0, end="latest")]
        options = options._replace(bootstrap=others)
        [slice_] = plan(options, cores=1)
        known_before = slice_._replace(replicas=committed.replicas)
        assert len(expected) == 20
        assert offsets_and_values(known_before, options) == expected
        [known_only] = [each for each in committed.replicas if each.address == hung.address]
        assert log_of_replica(slice_._replace(replicas=(known_only,)), options) is None
        assert log_of_replica(committed._replace(replicas=(known_only,)), options) is not None
        hung.kill()
