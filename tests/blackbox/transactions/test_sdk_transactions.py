"""Transactions of the SDK against the shipped broker: what counts, what does not, and who may go on."""

import itertools
import threading

import pyarrow as pa
import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.model.errors import (
    InvalidRequest,
    MessageTooLarge,
    ProducerFenced,
    QuiverError,
    TopicNotFound,
    TransactionAborted,
    TransactionConflict,
    TransactionNotFound,
)

_NUMBERS = itertools.count()


@pytest.fixture
def other(shared_broker: BrokerProcess):
    with quiver.connect(shared_broker.address) as client:
        yield client


@pytest.fixture
def topic(q) -> str:
    return new_topic(q, partitions=2)


def values(q, topic: str, **options) -> list[bytes]:
    return sorted(message.value for message in q.read(topic, end="latest", **options))


def stored(q, topic: str) -> list[bytes]:
    return values(q, topic, isolation="read_uncommitted")


class Oops(Exception):
    pass


def test_everything_is_there_after_the_block_and_nothing_before(q, topic):
    with q.transaction("whole") as tx:
        for number in range(100):
            tx.publish(topic, b"%d" % number, key=b"%d" % number)
        tx.flush()
        assert values(q, topic) == []
        assert len(stored(q, topic)) == 100
        assert sum(q.offsets(topic).values()) == 0
        assert sum(q.offsets(topic, isolation="read_uncommitted").values()) == 100
    assert tx.state == "committed"
    assert values(q, topic) == sorted(b"%d" % number for number in range(100))


def test_an_exception_aborts_and_goes_on(q, topic):
    def attempt() -> None:
        with q.transaction("failing") as tx:
            tx.send_many(topic, [b"never"] * 1000)
            tx.flush()
            raise Oops

    with pytest.raises(Oops):
        attempt()
    with q.transaction("failing") as tx:
        tx.publish(topic, "kept")
    assert values(q, topic) == [b"kept"]
    assert len(stored(q, topic)) == 1001


def test_one_identity_serves_all_transactions_of_an_id(q, topic):
    keys = []
    for number in range(5):
        with q.transaction("again") as tx:
            keys.append(tx.producer_key)
            tx.publish(topic, b"%d" % number)
    assert [key.epoch for key in keys] == list(range(keys[0].epoch, keys[0].epoch + 5))
    assert len({key.producer_id for key in keys}) == 1
    anonymous = []
    for _ in range(3):
        with q.transaction() as tx:
            anonymous.append(tx.producer_key.producer_id)
            tx.publish(topic, b"x")
    assert len(set(anonymous)) == 1


def test_an_empty_transaction_costs_nothing(q):
    before = q.transactions.stats()
    with q.transaction("empty") as tx:
        first = tx.producer_key
    with q.transaction("empty") as tx:
        assert tx.producer_key == first
    after = q.transactions.stats()
    assert (after.committed, after.aborted) == (before.committed, before.aborted)


def test_many_topics_and_everything_a_message_can_have(q, topic):
    topics = [f"{topic}-{number}" for number in range(20)]
    for name in topics:
        q.topics.create(name, partitions=3)
    with q.transaction("wide") as tx:
        for name in topics:
            for partition in range(3):
                tx.publish(name, {"to": name}, partition=partition, key="k", headers={"h": "1"}, priority="high")
        tx.send_many(topic, [b"a", b"b"], keys=["1", "2"], ttl="1h")
        tx.send_arrow(topic, pa.table({"value": [b"c"]}))
    for name in topics:
        found = list(q.read(name, end="latest"))
        assert {message.partition for message in found} == {0, 1, 2}
        assert {(m.key, m.headers["h"], m.priority, m.json()["to"]) for m in found} == {(b"k", b"1", "high", name)}
    assert values(q, topic) == [b"a", b"b", b"c"]


def test_delayed_messages_are_scheduled_by_the_commit(q, topic):
    def attempt() -> None:
        with q.transaction("later") as tx:
            tx.publish(topic, b"never", delay="1h")
            tx.flush()
            raise Oops

    with pytest.raises(Oops):
        attempt()
    with q.transaction("later") as tx:
        tx.publish(topic, b"soon", delay="50ms")
        tx.publish(topic, b"in an hour", delay="1h")
    wait_until(lambda: values(q, topic) == [b"soon"], 10, "the message is due")
    assert q.delayed.list(topic).total == 1


def test_messages_of_others_wait_behind_an_open_transaction(q, other, topic):
    with q.transaction("first") as tx:
        tx.publish(topic, b"1", partition=0)
        tx.flush()
        other.publish(topic, b"2", partition=0)
        assert values(other, topic) == []
    reader = other.read(topic, partitions=0)
    assert [next(iter(reader)).value for _ in range(2)] == [b"1", b"2"]


def test_a_refused_message_fails_the_commit_and_nothing_counts(q, topic):
    q.topics.create(f"{topic}-small", max_message_bytes=100)
    q.topics.create(f"{topic}-keyed", cleanup="compact")

    def attempt(name: str, value: bytes) -> None:
        with q.transaction("refused") as tx:
            tx.publish(topic, b"never")
            tx.publish(name, value)

    with pytest.raises(TopicNotFound):
        attempt("no-such-topic", b"x")
    with pytest.raises(MessageTooLarge):
        attempt(f"{topic}-small", b"x" * 101)
    with pytest.raises(QuiverError, match="key"):  # the broker says so, when the message arrives there
        attempt(f"{topic}-keyed", b"x")
    attempt(f"{topic}-small", b"x" * 100)
    assert values(q, topic) == [b"never"]


def test_partitions_that_are_added_meanwhile_get_their_keys(q, topic):
    with q.transaction("growing") as tx:
        tx.send_many(topic, [b"%d" % n for n in range(50)], keys=[b"%d" % n for n in range(50)])
    q.topics.add_partitions(topic, 5)
    with q.transaction("growing") as tx:
        for n in range(50, 100):
            tx.publish(topic, b"%d" % n, key=b"%d" % n)
    assert len(values(q, topic)) == 100
    assert {m.partition for m in q.read(topic, end="latest") if int(m.value) >= 50} == {0, 1, 2, 3, 4}


def test_whoever_takes_an_id_over_fences_the_one_before(q, other, topic):
    def attempt() -> None:
        with q.transaction("taken") as tx:
            tx.publish(topic, b"zombie")
            tx.flush()
            with other.transaction("taken") as heir:
                heir.publish(topic, b"heir")

    with pytest.raises(ProducerFenced):
        attempt()
    for _ in range(2):  # it stays fenced, and fences nobody
        with pytest.raises(ProducerFenced), q.transaction("taken") as tx:
            tx.publish(topic, b"zombie")
    with other.transaction("taken") as heir:
        heir.publish(topic, b"heir again")
    q.transactional("taken").init()
    with q.transaction("taken") as tx:
        tx.publish(topic, b"back")
    with pytest.raises(ProducerFenced), other.transaction("taken") as heir:
        heir.publish(topic, b"zombie")
    assert values(q, topic) == [b"back", b"heir", b"heir again"]


def test_a_transaction_that_takes_too_long_is_aborted_and_the_next_goes_on(q, topic):
    def attempt() -> None:
        with q.transaction("slow", timeout="300ms") as tx:
            tx.publish(topic, b"late")
            tx.flush()
            wait_until(lambda: values(q, topic, start="latest") == [] and not _is_open(q, "slow"), 10, "the timeout")
            tx.publish(topic, b"later")

    with pytest.raises(TransactionAborted) as raised:
        attempt()
    assert raised.value.retryable
    with q.transaction("slow", timeout="10s") as tx:
        tx.publish(topic, b"in time")
        assert tx.flush() is None
        assert q.transactions.describe("slow").timeout_ms == 10_000
    assert values(q, topic) == [b"in time"]


def _is_open(q, name: str) -> bool:
    return q.transactions.describe(name).state == "open"


def test_one_at_a_time_for_each_id_and_any_number_without(q, topic):
    with q.transaction("single") as tx:
        tx.publish(topic, b"1")
        with pytest.raises(TransactionConflict, match="use one transactional id per"):
            q.transaction("single").begin()
        with q.transaction() as free, q.transaction() as another:
            free.publish(topic, b"2")
            another.publish(topic, b"3")
    assert values(q, topic) == [b"1", b"2", b"3"]


def test_threads_share_a_transaction(q, topic):
    with q.transaction("threads") as tx:

        def send(name: int) -> None:
            for number in range(500):
                tx.publish(topic, b"%d-%d" % (name, number))

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(values(q, topic))) == 2000


def test_by_hand(q, topic):
    producer = q.transactional("by hand")
    tx = producer.begin()
    tx.publish(topic, b"1")
    producer.commit()
    tx.commit()  # it is
    with pytest.raises(InvalidRequest, match="is committed"):
        tx.publish(topic, b"x")
    with pytest.raises(InvalidRequest, match="is committed"):
        tx.abort()
    with pytest.raises(InvalidRequest, match="call begin first"):
        producer.abort()
    tx = producer.begin()
    tx.publish(topic, b"2")
    producer.abort()
    tx.abort()
    with producer.begin() as tx:
        tx.publish(topic, b"3")
    assert values(q, topic) == [b"1", b"3"]


def test_workers_prepare_and_a_driver_commits_all_of_it_once(q, other, topic):
    def prepare(value: bytes) -> quiver.ProducerKey:
        tx = q.transactional().begin()
        tx.send_many(topic, [value] * 10)
        return tx.detach()

    winners = [prepare(b"winner") for _ in range(3)]
    losers = [prepare(b"loser"), prepare(b"loser")]
    assert values(q, topic) == []
    assert other.commit_transactions(winners, key="query/1")
    assert not other.commit_transactions(winners, key="query/1")
    assert not q.commit_transactions([prepare(b"twice")], key="query/1")
    other.abort_transactions(losers)
    with pytest.raises(ProducerFenced):
        other.abort_transactions([winners[0], losers[0]])
    with pytest.raises(ProducerFenced):
        other.commit_transactions([losers[0]])
    assert values(q, topic) == [b"winner"] * 30


def test_a_key_with_another_description_is_refused_and_commits_nothing(q, other, topic, shared_broker):
    def prepare(value: bytes) -> quiver.ProducerKey:
        tx = q.transactional().begin()
        tx.publish(topic, value)
        return tx.detach()

    assert other.commit_transactions([prepare(b"a")], key="described/1", description="1 row")
    assert not other.commit_transactions([prepare(b"b")], key="described/1", description="1 row")
    assert not other.commit_transactions([prepare(b"b")], key="described/1")
    left = prepare(b"c")
    said = "'described/1' was used for '1 row' and now comes with '2 rows'"
    with pytest.raises(quiver.errors.CommitKeyConflict, match=said):
        other.commit_transactions([left], key="described/1", description="2 rows")
    body = {"producer_id": left.producer_id, "epoch": left.epoch, "key": "described/1", "description": "2 rows"}
    status, answer = shared_broker.request("POST", "/transactions/commit", body)
    assert (status, answer["code"]) == (409, "commit_key_conflict")
    with pytest.raises(quiver.errors.InvalidRequest, match="needs a key"):
        other.commit_transactions([left], description="2 rows")
    q.abort_transactions([left])
    assert values(q, topic) == [b"a"]


def test_a_joint_commit_fails_as_a_whole(q, topic):
    good, gone = q.transactional().begin(), q.transactional().begin()
    for tx in (good, gone):
        tx.publish(topic, b"x")
    keys = [good.detach(), gone.detach()]
    q.abort_transactions(keys[1:])
    with pytest.raises(ProducerFenced):
        q.commit_transactions(keys, key="joint")
    q.abort_transactions([(keys[0].producer_id, keys[0].epoch)])
    assert values(q, topic) == []


def test_a_detached_transaction_outlives_its_client(shared_broker: BrokerProcess, q, topic):
    with quiver.connect(shared_broker.address) as worker, worker.transaction() as tx:
        tx.publish(topic, b"left")
        key = tx.detach()
        with pytest.raises(InvalidRequest, match="is detached"):
            tx.publish(topic, b"x")
    q.commit_transactions([key])
    assert values(q, topic) == [b"left"]


def test_a_client_that_is_closed_aborts_what_it_has_open(shared_broker: BrokerProcess, q, topic):
    with quiver.connect(shared_broker.address) as client:
        tx = client.transactional("left open").begin()
        tx.publish(topic, b"never")
        tx.flush()
    assert q.transactions.describe("left open").state in ("aborting", "aborted")
    assert values(q, topic) == []


def test_transactions_can_be_looked_at_and_aborted_from_outside(q, other, topic):
    def attempt() -> None:
        with q.transaction("seen") as tx:
            tx.publish(topic, b"x", partition=1)
            tx.flush()
            [info] = [info for info in other.transactions.list() if info.transactional_id == "seen"]
            assert (info.state, info.partitions, info.transaction_id) == ("open", [(topic, 1)], tx.name)
            assert other.transactions.describe(tx.producer_key.producer_id) == info
            with pytest.raises(InvalidRequest, match="only an open transaction"):
                other.transactions.abort("seen", epoch=tx.producer_key.epoch + 1)
            assert other.transactions.abort("seen") == info
            with pytest.raises(InvalidRequest, match="only an open transaction"):
                other.transactions.abort("seen")

    with pytest.raises(TransactionAborted):
        attempt()
    with q.transaction("seen") as tx:
        tx.publish(topic, b"y")
    assert values(q, topic) == [b"y"]
    with pytest.raises(TransactionNotFound):
        other.transactions.describe("nobody")
    assert other.transactions.list(limit=1).total >= 0


def test_words_that_are_not_there(q, topic):
    with pytest.raises(InvalidRequest, match="read_committed, read_uncommitted"):
        q.read(topic, isolation="dirty")
    with pytest.raises(InvalidRequest, match="read_committed, read_uncommitted"):
        q.stream(topic, group="g", isolation="dirty")
    with pytest.raises(TypeError, match="no option"), q.transaction() as tx:
        tx.publish(topic, b"x", colour="red")
