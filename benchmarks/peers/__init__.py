"""The brokers that Quiver is compared with, each with its usual Python client; Kafka with its own as well."""

from benchmarks.peers.beanstalkd import Beanstalkd
from benchmarks.peers.kafka.subject import Kafka
from benchmarks.peers.nats import Nats
from benchmarks.peers.postgres import Postgres
from benchmarks.peers.rabbitmq import RabbitQueue
from benchmarks.peers.rabbitmq_stream import RabbitStream
from benchmarks.peers.redis import Redis
from benchmarks.subject import Subject


def all_peers() -> list[Subject]:
    return [
        Kafka("kafka", language="Java"),
        Kafka("kafka-flushed", language="Java", flushed=True),
        Kafka("kafka-python", language="Python"),
        Nats(),
        Redis(),
        RabbitStream(),
        RabbitQueue(),
        Postgres("postgres", synchronous_commit=True),
        Postgres("postgres-async", synchronous_commit=False),
        Beanstalkd(),
    ]
