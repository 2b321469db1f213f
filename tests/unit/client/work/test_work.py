"""Working as a consumer: handing out, settling, renewing, giving back; against a scripted broker."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import quiver
from quiver.client import Client, Job, Work
from quiver.client._sync.work.settler import Settler
from quiver.client.work.settlement import Decision
from quiver.model.errors import Closed, InvalidRequest, LeaseLost, QuiverError, SettleInOrder, TopicNotFound
from quiver.model.settlement import ACK, EXTEND, NACK, REJECT
from quiver.protocol.messages import Failure
from quiver.protocol.queue_messages import Receive, Settle
from unit.client.fake_queue_broker import FakeQueueBroker

SECONDS = 10.0


def until(check: Callable[[], Any]) -> None:
    """Waits for a state of the other side, which gives no event."""
    gate = threading.Event()
    for _ in range(int(SECONDS / 0.005)):
        if check():
            return
        gate.wait(0.005)
    raise AssertionError("it did not happen")


def take(work: Work, count: int) -> list[Job]:
    return [job for _, job in zip(range(count), work, strict=False)]


def test_jobs_are_messages_with_a_history(broker: FakeQueueBroker, q: Client):
    broker.add(b'{"n": 1}', keys=[b"k"])
    with q.work("jobs", group="g") as work:
        job = next(iter(work))
        assert (job.topic, job.partition, job.offset, job.key, job.json()) == ("jobs", 0, 0, b"k", {"n": 1})
        assert (job.attempt, job.last_error, job.first_delivered) == (1, None, 1_700_000_000_000)
        assert job.receipt == "jobs:0:0:1:3-1"
        assert job.priority == "normal"
        assert "attempt=1" in repr(job)
        job.ack()
    assert broker.state_of("done") == [b'{"n": 1}']


def test_leaving_the_block_acks_and_acks_travel_as_ranges(broker: FakeQueueBroker, q: Client):
    broker.add(*[b"%d" % n for n in range(100)])
    with q.work("jobs", group="g", prefetch=100) as work:
        for count, job in enumerate(work, 1):
            with job:
                assert job.value == b"%d" % job.offset
            if count == 100:
                break
    assert len(broker.state_of("done")) == 100
    assert sum(len(part.runs) for part in broker.parts(ACK)) <= len(broker.requests_of(Settle)) < 50


def test_an_exception_gives_the_message_back_with_its_text_and_goes_on(broker: FakeQueueBroker, q: Client):
    broker.add(b"a", b"b")

    def fail(work: Work) -> None:
        for job in work:
            with job:
                _ = 1 / 0

    with q.work("jobs", group="g") as work:
        with pytest.raises(ZeroDivisionError):
            fail(work)
        for job in work:  # the loop can be gone on with
            with job:
                assert job.value == b"b"
            break
    assert broker.state_of("later") == [b"a"]
    assert broker.parts(NACK)[0].reason == "ZeroDivisionError: division by zero"
    assert broker.parts(NACK)[0].is_counted
    assert broker.state_of("done") == [b"b"]


def test_reject_inside_the_block_rejects_and_the_loop_goes_on(broker: FakeQueueBroker, q: Client):
    broker.add(b"a", b"b")
    with q.work("jobs", group="g") as work:
        for job in work:
            with job:
                if job.value == b"a":
                    raise quiver.Reject("no such customer")
                break
    assert broker.state_of("dead") == [b"a"]
    assert broker.parts(REJECT)[0].reason == "no such customer"
    assert broker.state_of("done") == [b"b"]


def test_an_interrupt_is_not_the_fault_of_the_message(broker: FakeQueueBroker, q: Client):
    broker.add(b"a")
    with q.work("jobs", group="g") as work:
        job = next(iter(work))
        with pytest.raises(KeyboardInterrupt), job:
            raise KeyboardInterrupt
        until(lambda: broker.parts(NACK))
    assert (broker.parts(NACK)[0].is_counted, broker.parts(NACK)[0].delay_ms) == (False, 0)


def test_settling_by_hand(broker: FakeQueueBroker, q: Client):
    broker.add(b"a", b"b", b"c")
    with q.work("jobs", group="g") as work:
        first, second, third = take(work, 3)
        with first:
            first.nack(delay="5s", error="busy")
        second.reject("bad")
        third.nack(counted=False)
        with pytest.raises(LeaseLost, match="offset 1"):
            second.ack()
        assert first.is_settled
        assert third.is_settled
    assert [part.action for part in broker.settled] == [NACK, REJECT, NACK]
    assert (broker.settled[0].delay_ms, broker.settled[0].reason) == (5000, "busy")
    assert not broker.settled[2].is_counted


def test_a_refused_ack_is_raised_at_the_next_job(broker: FakeQueueBroker, q: Client):
    broker.add(b"a", b"b", b"c")
    with q.work("jobs", group="g") as work:
        jobs = iter(work)
        with next(jobs):
            broker.messages[0].lease = -1
        until(lambda: broker.parts(ACK))
        until(lambda: work._state.errors)
        with pytest.raises(LeaseLost, match="jobs-0 offset 0"):
            work.next_job()
        assert work.next_job().value == b"b"
        assert work.is_closed is False


def test_a_refused_ack_that_nobody_heard_of_is_raised_by_close(broker: FakeQueueBroker, q: Client):
    broker.add(b"a")
    work = q.work("jobs", group="g")
    with next(iter(work)):
        broker.expire()
    with pytest.raises(LeaseLost, match="offset 0"):
        work.close()


def test_an_explicit_ack_raises_its_own_refusal(broker: FakeQueueBroker, q: Client):
    broker.add(b"a")
    with q.work("jobs", group="g") as work:
        job = next(iter(work))
        broker.expire()
        with pytest.raises(LeaseLost):
            job.ack()


def test_leases_are_renewed_while_the_handler_runs_and_for_what_is_prefetched():
    with FakeQueueBroker(visibility_ms=300) as broker, quiver.connect(broker.address) as q:
        broker.add(b"a", b"b", b"c")
        with q.work("jobs", group="g", prefetch=3) as work:
            with next(iter(work)):
                until(lambda: len(broker.parts(EXTEND)) >= 3)
            extended = broker.parts(EXTEND)
            assert extended[0].runs == [(0, 3)]
            assert extended[0].delay_ms == 300
        assert broker.state_of("done") == [b"a"]
        assert broker.state_of("ready") == [b"b", b"c"]


def test_a_lease_that_is_known_to_be_lost_raises_on_leaving_and_no_ack_is_sent():
    with FakeQueueBroker(visibility_ms=300) as broker, quiver.connect(broker.address) as q:
        broker.add(b"a")
        with q.work("jobs", group="g") as work:
            job = next(iter(work))
            broker.expire()
            until(lambda: job.source.run.lost is not None)
            with pytest.raises(LeaseLost, match="offset 0"), job:
                pass
            with pytest.raises(LeaseLost):
                job.ack()
            with pytest.raises(LeaseLost):
                job.extend()
        assert broker.parts(ACK) == []


def test_what_was_lost_in_the_buffer_is_not_handed_out():
    with FakeQueueBroker(visibility_ms=300) as broker, quiver.connect(broker.address) as q:
        broker.add(b"a", b"b", b"c")
        with q.work("jobs", group="g", prefetch=3) as work:
            job = work.next_job()
            broker.expire()
            until(lambda: job.source.run.lost is not None and len(job.source.run.lost) == 3)
            broker.add(b"d")
            assert work.next_job().value == b"d"


def test_extending_by_hand_outlasts_renewals():
    with FakeQueueBroker(visibility_ms=300) as broker, quiver.connect(broker.address) as q:
        broker.add(b"a", b"b")
        with q.work("jobs", group="g", prefetch=2) as work:
            job, other = take(work, 2)
            assert job.extend("1h") == 1_700_000_000_000
            seen = len(broker.parts(EXTEND))
            until(lambda: len(broker.parts(EXTEND)) >= seen + 3)
            assert broker.parts(EXTEND)[seen - 1].delay_ms == 3_600_000
            assert all(part.runs == [(1, 2)] for part in broker.parts(EXTEND)[seen + 1 :])
            job.ack()
            other.ack()


def test_close_gives_back_what_was_not_handed_out_uncounted(broker: FakeQueueBroker, q: Client):
    broker.add(*[b"%d" % n for n in range(10)])
    with q.work("jobs", group="g", prefetch=10) as work, next(iter(work)):
        pass
    assert broker.state_of("done") == [b"0"]
    assert broker.state_of("ready") == [b"%d" % n for n in range(1, 10)]
    assert all(message.attempt == 0 for message in broker.messages[1:])


def test_what_is_urgent_overtakes_what_was_prefetched(broker: FakeQueueBroker, q: Client):
    broker.add(*[b"low %d" % n for n in range(20)], level=3)
    with q.work("jobs", group="g", prefetch=100) as work:
        jobs = iter(work)
        seen = [next(jobs).value]
        broker.add(b"urgent", level=0)
        until(lambda: work._buffer.count == 20)
        seen += [next(jobs).value for _ in range(20)]
    assert seen.index(b"urgent") <= 7
    assert [value for value in seen if value != b"urgent"] == [b"low %d" % n for n in range(20)]


def test_a_request_waits_while_there_is_room(broker: FakeQueueBroker, q: Client):
    with q.work("jobs", group="g", prefetch=5, visibility="7s", priority="high", consumer="me", start=3) as work:
        broker.add(b"a", b"b")
        take(work, 1)
        until(lambda: len(broker.requests_of(Receive)) == 2)
        first, second = broker.requests_of(Receive)
    assert isinstance(first, Receive)
    assert isinstance(second, Receive)
    assert first.max_messages == 5
    # Before or after the first was handed out, or while the slice with both is: it counts neither here nor there.
    assert second.max_messages in (3, 4, 5)
    assert (first.visibility_ms, first.priority, first.consumer, first.group) == (7000, 1, "me", "g")
    assert (first.start.kind, first.start.value) == ("offset", 3)
    assert first.wait_ms > 1000


def test_the_consumer_has_one_name_for_all_its_connections(broker: FakeQueueBroker, q: Client):
    with q.work("jobs", group="g") as work:
        broker.add(b"a")
        work.next_job()
        broker.disconnect()
        until(lambda: len({id(r) for r in broker.requests_of(Receive)}) >= 2)
        broker.add(b"b")
        work.next_job()
        names = {request.consumer for request in broker.requests_of(Receive)}
    assert len(names) == 1
    assert names != {""}


def test_an_ack_whose_answer_was_lost_is_repeated_and_is_no_loss(broker: FakeQueueBroker, q: Client):
    broker.add(b"a")
    faults = iter(["drop after"])
    broker.fault = lambda request: next(faults, None) if isinstance(request, Settle) else None
    with q.work("jobs", group="g") as work:
        work.next_job().ack()
    assert len(broker.parts(ACK)) == 2
    assert broker.state_of("done") == [b"a"]


def test_an_ack_that_was_never_heard_is_repeated(broker: FakeQueueBroker, q: Client):
    broker.add(b"a", b"b")
    faults = iter(["drop", Failure("shutting_down", "later", True)])
    broker.fault = lambda request: next(faults, None) if isinstance(request, Settle) else None
    with q.work("jobs", group="g") as work:
        with work.next_job():
            pass
        with work.next_job():
            pass
    assert broker.state_of("done") == [b"a", b"b"]


def test_an_answer_that_refuses_everything_is_told(broker: FakeQueueBroker, q: Client):
    broker.add(b"a")
    broker.fault = lambda request: Failure("invalid_request", "no", False) if isinstance(request, Settle) else None
    with q.work("jobs", group="g") as work:
        job = work.next_job()
        with pytest.raises(InvalidRequest, match="no"):
            job.ack()
        assert not job.is_settled
        broker.fault = lambda request: None
        job.ack()


def test_a_topic_that_was_created_again_is_found(broker: FakeQueueBroker, q: Client):
    refusals = iter([Failure("topic_not_found", "gone", False)])
    broker.fault = lambda request: next(refusals, None) if isinstance(request, Receive) else None
    broker.add(b"a")
    with q.work("jobs", group="g") as work, work.next_job() as job:
        assert job.value == b"a"


def test_a_missing_topic_and_a_wrong_group_are_told(broker: FakeQueueBroker, q: Client):
    with pytest.raises(TopicNotFound):
        next(iter(q.work("nothing", group="g")))
    refusal = Failure("group_kind_mismatch", "group 'g' is a stream group", False)
    broker.fault = lambda request: refusal if isinstance(request, Receive) else None
    with pytest.raises(QuiverError, match="stream group"):
        next(iter(q.work("jobs", group="g")))


def test_bad_options_are_refused(q: Client):
    for options in ({"ordering": "time"}, {"prefetch": -1}, {"max_messages": 0}, {"visibility": 0}, {"priority": 9}):
        with pytest.raises(InvalidRequest):
            q.work("jobs", group="g", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        q.work([], group="g")


def test_stop_ends_the_loop_of_another_thread(broker: FakeQueueBroker, q: Client):
    work = q.work("jobs", group="g").open()
    seen: list[bytes | None] = []
    loop = threading.Thread(target=lambda: seen.extend(job.value for job in work))
    loop.start()
    broker.add(b"a")
    until(lambda: seen)
    work.stop()
    loop.join(SECONDS)
    assert not loop.is_alive()
    assert seen == [b"a"]


def test_holes_are_not_settled(broker: FakeQueueBroker, q: Client):
    broker.add(*[b"%d" % n for n in range(6)])
    broker.messages[2].state = broker.messages[3].state = "done"
    with q.work("jobs", group="g", prefetch=6) as work:
        for batch in work.batches():
            assert [job.offset for job in batch] == [0, 1, 4, 5]
            assert batch.batch.column("offset").to_pylist() == [0, 1, 4, 5]
            batch.ack()
            break
    assert broker.parts(ACK)[0].runs == [(0, 2), (4, 6)]


def test_ordered_a_nack_takes_the_rest_of_its_key_along():
    with FakeQueueBroker(ordering="key") as broker, quiver.connect(broker.address) as q:
        broker.add(b"a1", b"b1", b"a2", b"b2", keys=[b"a", b"b", b"a", b"b"])
        with q.work("jobs", group="g", prefetch=4) as work:
            first = work.next_job()
            assert first.value == b"a1"
            first.nack(delay=60)
            for expected in (b"b1", b"b2"):
                with work.next_job() as job:
                    assert job.value == expected
            until(lambda: len(broker.state_of("done")) == 2)
        assert broker.state_of("later") == [b"a1"]
        assert broker.state_of("ready") == [b"a2"]
        assert [message.attempt for message in broker.messages] == [1, 1, 0, 1]


def test_ordered_acks_and_rejects_reach_the_broker_in_order():
    with FakeQueueBroker(ordering="key") as broker, quiver.connect(broker.address) as q:
        broker.add(b"a1", b"a2", b"a3", keys=[b"a", b"a", b"a"])
        with q.work("jobs", group="g", ordering="key", prefetch=3) as work:
            for job in take(work, 3):
                with job:
                    if job.value == b"a2":
                        raise quiver.Reject("bad")
            work.stop()
        assert [message.state for message in broker.messages] == ["done", "dead", "done"]


def test_ordered_out_of_turn_is_told_and_can_be_done_again():
    with FakeQueueBroker(ordering="key") as broker, quiver.connect(broker.address) as q:
        broker.add(b"a1", b"a2", keys=[b"a", b"a"])
        with q.work("jobs", group="g", ordering="key") as work:
            first, second = take(work, 2)
            with pytest.raises(SettleInOrder):
                second.ack()
            first.ack()
            second.ack()
        assert broker.state_of("done") == [b"a1", b"a2"]


def test_what_waits_behind_a_long_handler_is_left_to_others():
    with FakeQueueBroker(visibility_ms=300) as broker, quiver.connect(broker.address) as q:
        broker.add(b"a", b"b", b"c")
        with q.work("jobs", group="g") as work:
            with work.next_job():
                until(lambda: broker.state_of("ready") == [b"b", b"c"])
                until(lambda: any(part.runs == [(0, 1)] for part in broker.parts(EXTEND)))
                assert [message.attempt for message in broker.messages] == [1, 0, 0]
            with work.next_job() as job:
                assert (job.value, job.attempt) == (b"b", 1)
        assert broker.state_of("done") == [b"a", b"b"]


def test_after_a_pause_what_lies_here_is_confirmed_before_it_is_handed_out(broker: FakeQueueBroker, q: Client):
    broker.add(b"a", b"b", b"c")
    with q.work("jobs", group="g", prefetch=3) as work:
        job = work.next_job()
        work._buffer.return_all()
        job.source.run.expires_at = 0.0
        assert work.next_job().value == b"b"
        assert broker.parts(EXTEND)[0].runs == [(0, 3)]
        work._buffer.return_all()
        job.source.run.expires_at = 0.0
        broker.expire()
        broker.add(b"d")
        assert work.next_job().value == b"d"


def test_an_ack_behind_its_time_waits_for_the_answer(broker: FakeQueueBroker, q: Client):
    broker.add(b"a", b"b")
    with q.work("jobs", group="g") as work:
        first, second = take(work, 2)
        first.source.run.expires_at = 0.0
        with first:
            pass
        assert broker.state_of("done") == [b"a"]
        broker.expire()
        with pytest.raises(LeaseLost, match="offset 1"), second:
            pass


def test_the_first_messages_of_many_frames_are_given_out_in_order(broker: FakeQueueBroker, q: Client):
    for number in range(50):
        broker.add(b"%d" % number)
    with q.work("jobs", group="g") as work:
        assert [job.value for job in take(work, 50)] == [b"%d" % number for number in range(50)]


def test_no_prefetch_means_one_message_at_a_time(broker: FakeQueueBroker, q: Client):
    broker.add(b"a", b"b")
    with q.work("jobs", group="g", prefetch=0) as work:
        with work.next_job():
            assert broker.state_of("ready") == [b"b"]
        with work.next_job() as job:
            assert job.value == b"b"
    assert all(request.max_messages == 1 for request in broker.requests_of(Receive))  # type: ignore[union-attr]


def test_a_refusal_that_passes_is_not_told_but_tried_again(broker: FakeQueueBroker, q: Client):
    broker.add(b"a", b"b")
    broker.busy_settles = 2
    with q.work("jobs", group="g") as work:
        with work.next_job():
            pass
        work.next_job().ack()
    assert broker.state_of("done") == [b"a", b"b"]
    assert broker.busy_settles == 0


def test_a_job_outlives_its_work_but_cannot_be_acked_any_more(broker: FakeQueueBroker, q: Client):
    broker.add(b"a")
    with q.work("jobs", group="g") as work:
        job = work.next_job()
    with pytest.raises(Closed), job:
        pass
    assert work.next_job() is None
    assert broker.parts(ACK) == []


def test_the_loop_is_woken_once_however_much_is_decided_before_it_runs(q: Client, monkeypatch: pytest.MonkeyPatch):
    work = q.work("jobs", group="g")  # not opened: its loop does not run
    settler, woken = Settler(work._state, work._broker), []
    monkeypatch.setattr(settler, "wake", lambda: woken.append(len(settler.decided)))
    for _ in range(3):
        settler.decide(Decision(ACK, []))
    assert woken == [1]
    settler.is_asleep = True  # as the loop says before it looks at what was decided
    settler.decide(Decision(ACK, []))
    assert woken == [1, 4]
    work.close()
