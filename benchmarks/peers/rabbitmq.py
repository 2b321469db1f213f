"""A RabbitMQ classic queue with pika: durable, persistent, publisher confirms in a window."""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.payload import Payload, age_seconds, paced, stamped
from benchmarks.peers.rabbitmq_server import RabbitServer
from benchmarks.roles import Watch
from benchmarks.servers.server import HOST

QUEUE = "bench"
WINDOW = 2_000
ACK_EVERY = 500


class RabbitQueue(RabbitServer):
    name = "rabbitmq-queue"
    client = f"pika SelectConnection; {WINDOW} unconfirmed publishes, prefetch 1000, one ack for {ACK_EVERY} messages"
    durability = "durable queue, persistent messages, confirmed after fsync (default)"
    bulk_messages = 30_000
    both_messages = 25_000
    work_messages = 25_000

    def reset(self) -> None:
        import pika

        connection = pika.BlockingConnection(self._parameters())
        channel = connection.channel()
        channel.queue_delete(QUEUE)
        channel.queue_declare(QUEUE, durable=True)
        connection.close()

    def produce(self, count: int, payload: Payload, watch: Watch) -> None:
        import pika

        bodies, persistent = payload.endless(count), pika.BasicProperties(delivery_mode=2)
        sent = confirmed = 0

        def fill(channel: Any) -> None:
            nonlocal sent
            while sent < count and sent - confirmed < WINDOW:
                channel.basic_publish("", QUEUE, next(bodies), persistent)
                sent += 1

        def on_channel(channel: Any) -> None:
            def on_confirm(frame: Any) -> None:
                nonlocal confirmed
                if not isinstance(frame.method, pika.spec.Basic.Ack):
                    raise RuntimeError(f"not confirmed: {frame}")
                tag, many = frame.method.delivery_tag, frame.method.multiple
                confirmed = max(confirmed, tag) if many else confirmed + 1
                if confirmed >= count:
                    watch.stop()
                    connection.ioloop.stop()
                elif sent - confirmed <= WINDOW // 2:
                    fill(channel)

            def begin(_: Any) -> None:
                watch.start()
                fill(channel)

            channel.confirm_delivery(on_confirm, begin)

        connection = self._select_connection(on_channel)
        connection.ioloop.start()

    def consume(self, count: int, watch: Watch) -> None:
        self._consume(count, watch, ACK_EVERY, None)

    def work(self, count: int, batch: int, watch: Watch) -> None:
        self._consume(count, watch, batch, None)

    def produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        import pika

        channel = pika.BlockingConnection(self._parameters()).channel()
        channel.confirm_delivery()
        bodies, took, persistent = payload.endless(count), [], pika.BasicProperties(delivery_mode=2)
        watch.start()
        for _ in paced(count, rate):
            begin = time.monotonic()
            channel.basic_publish("", QUEUE, stamped(next(bodies)), persistent)
            took.append(time.monotonic() - begin)
        watch.stop()
        return took

    def consume_stamped(self, count: int, watch: Watch) -> list[float]:
        ages: list[float] = []
        self._consume(count, watch, 1, lambda body: ages.append(age_seconds(body)))
        return ages

    def _consume(self, count: int, watch: Watch, ack_every: int, on_body: Callable[[bytes], None] | None) -> None:
        received = 0

        def on_channel(channel: Any) -> None:
            def finish(_: Any) -> None:
                watch.stop()
                connection.ioloop.stop()

            def on_message(_: Any, method: Any, properties: Any, body: bytes) -> None:
                nonlocal received
                received += 1
                if on_body is not None:
                    on_body(body)
                if received % ack_every == 0 or received == count:
                    channel.basic_ack(method.delivery_tag, multiple=ack_every > 1)
                if received == count:  # the answer to this comes behind the last ack
                    channel.queue_declare(QUEUE, passive=True, callback=finish)

            def begin(_: Any) -> None:
                watch.start()
                channel.basic_consume(QUEUE, on_message)

            channel.basic_qos(prefetch_count=1000, callback=begin)

        connection = self._select_connection(on_channel)
        connection.ioloop.start()

    def _parameters(self) -> Any:
        import pika

        return pika.URLParameters(f"amqp://guest:guest@{HOST}:{self.port}/")

    def _select_connection(self, on_channel: Callable[[Any], None]) -> Any:
        import pika

        return pika.SelectConnection(
            self._parameters(), on_open_callback=lambda connection: connection.channel(on_open_callback=on_channel)
        )
