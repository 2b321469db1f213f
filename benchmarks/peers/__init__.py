"""The brokers that Quiver is compared with, each with its usual Python client at its best."""

from benchmarks.peers.beanstalkd import Beanstalkd
from benchmarks.peers.kafka import Kafka
from benchmarks.peers.nats import Nats
from benchmarks.peers.postgres import Postgres
from benchmarks.peers.rabbitmq import RabbitQueue
from benchmarks.peers.rabbitmq_stream import RabbitStream
from benchmarks.peers.redis import Redis
from benchmarks.subject import Subject


def all_peers() -> list[Subject]:
    return [
        Nats(),
        Redis(),
        RabbitStream(),
        RabbitQueue(),
        Postgres("postgres", synchronous_commit=True),
        Postgres("postgres-async", synchronous_commit=False),
        Beanstalkd(),
        Kafka(),
    ]
