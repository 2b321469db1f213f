"""A client that does not use pandas does not pay for importing it, even where it is installed."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from blackbox.processes.broker_process import BrokerProcess

PROGRAM = """
import sys
import quiver

with quiver.connect(sys.argv[1]) as q:
    q.topics.create("plain", partitions=2)
    q.publish("plain", "a", key="k", headers={"h": "v"}, ttl="1h")
    with q.producer("plain") as producer:
        producer.send(b"b", partition=0)
        for n in range(20_000):
            producer.send(b"message %d" % n, key="key-%d" % (n % 100))
        producer.send_many([b"c", b"d"], keys=[b"k", None])
    assert len(list(q.read("plain", end="latest"))) == 20_004
    assert sum(batch.num_rows for batch in q.read("plain", end="latest").batches()) == 20_004
    with q.stream("plain", group="readers") as stream:
        next(iter(stream))
    with q.work("plain", group="workers") as work:
        work.next_job("10s").ack()
        jobs = work.next_batch("10s")
        assert jobs.table.num_rows and jobs.batch.num_rows
        jobs.ack()
    with q.transaction() as t:
        t.publish("plain", "e")
print("pandas" in sys.modules)
"""


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")
def test_the_sdk_does_not_import_pandas(broker: BrokerProcess) -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM, broker.address], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("False\n", "")
