"""Who may use which epoch and what was decided: against a naive model, and after a restart at every record."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quiver.model.errors import CommitKeyConflict, ProducerFenced, UnknownProducer
from quiver.model.limits import COMMIT_KEYS_REMEMBERED_MS
from quiver.model.transaction import CommitPart, GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.transactions.events import (
    CODEC,
    Completed,
    Decided,
    Event,
    Forgotten,
    Initialized,
    MarkersLeft,
    Participant,
    ProducerOutcome,
    Touched,
)
from quiver.transactions.producer import CommitKey
from quiver.transactions.state import LAST_EPOCH, TransactionState

PRODUCERS = st.integers(1, 3)
EPOCHS = st.integers(0, 6)


def decided(
    id: int,
    *keys: tuple[int, int],
    commit: bool = True,
    reason: str = "request",
    key: str | None = None,
    at_ms: int = 0,
) -> Decided:
    outcomes = [
        ProducerOutcome(producer, epoch, producer, epoch + 1, [Participant(1, 0)]) for producer, epoch in keys
    ]
    return Decided(id, commit, reason, at_ms, outcomes, key)  # type: ignore[arg-type]


class StateAgainstHistory(RuleBasedStateMachine):
    """The model answers every question by looking through all that has happened."""

    def __init__(self) -> None:
        super().__init__()
        self.state = TransactionState()
        self.history: list[Event] = []

    def happen(self, event: Event) -> None:
        self.history.append(event)
        self.state.apply(CODEC.decode(CODEC.encode(event)))

    def epoch(self, producer: int) -> int | None:
        """What the last event that says so says."""
        found = None
        for event in self.history:
            if isinstance(event, Initialized) and event.producer_id == producer:
                found = event.epoch
            if isinstance(event, Decided):
                found = next((e.next_epoch for e in event.outcomes if e.producer_id == producer), found)
            if isinstance(event, Forgotten) and producer in event.producer_ids:
                found = None
        return found

    def last(self, producer: int) -> tuple[Decided, ProducerOutcome] | None:
        """The producer's last decision, if nobody took over since."""
        found = None
        for event in self.history:
            if isinstance(event, Initialized) and event.producer_id == producer:
                found = None
            if isinstance(event, Decided):
                for outcome in event.outcomes:
                    if outcome.producer_id == producer:
                        found = None if event.reason == "fenced" else (event, outcome)
            if isinstance(event, Forgotten) and producer in event.producer_ids:
                found = None
        return found

    @rule(producer=PRODUCERS)
    def initialize(self, producer: int) -> None:
        epoch = self.epoch(producer)
        following = 0 if epoch is None else epoch + 1
        self.happen(Initialized(producer, following, f"id {producer}", 1000, len(self.history)))

    @rule(
        producers=st.sets(PRODUCERS, min_size=1),
        commit=st.booleans(),
        reason=st.sampled_from(["request", "timeout", "fenced", "restart"]),
        key=st.sampled_from([None, None, "k"]),
    )
    def decide(self, producers: set[int], commit: bool, reason: str, key: str | None) -> None:
        known = [(producer, epoch) for producer in sorted(producers) if (epoch := self.epoch(producer)) is not None]
        if known and not (key and self.state.keyed(CommitKey(key))):
            commit = commit and reason == "request"
            event = decided(len(self.history) + 1, *known, commit=commit, reason=reason, key=key if commit else None)
            self.happen(event)

    @rule(producer=PRODUCERS)
    def touch(self, producer: int) -> None:
        epoch = self.epoch(producer)
        if epoch is not None:
            self.happen(Touched(producer, epoch))
            assert self.state.producers[producer].is_touched

    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        if self.state.unfinished:
            self.happen(Completed([data.draw(st.sampled_from(sorted(self.state.unfinished)))]))

    @rule(producer=PRODUCERS)
    def forget(self, producer: int) -> None:
        self.happen(Forgotten([producer]))

    @rule()
    def restart(self) -> None:
        again = TransactionState()
        again.restore(b"".join(self.state.snapshot()))
        self.state = again

    @rule(producer=PRODUCERS, epoch=EPOCHS)
    def ask_for_the_epoch(self, producer: int, epoch: int) -> None:
        current = self.epoch(producer)
        if current == epoch:
            self.state.check(producer, epoch)
            return
        with pytest.raises(UnknownProducer if current is None else ProducerFenced):
            self.state.check(producer, epoch)

    @rule(producers=st.sets(PRODUCERS, min_size=1), epoch=EPOCHS, commit=st.booleans())
    def ask_again(self, producers: set[int], epoch: int, commit: bool) -> None:
        keys = [ProducerKey(producer, epoch) for producer in sorted(producers)]
        lasts = [self.last(key.producer_id) for key in keys]
        same = [
            (event.id, outcome)
            for last in lasts
            if last is not None
            for event, outcome in [last]
            if outcome.epoch == epoch and event.commit == commit
        ]
        is_known = len(same) == len(keys) and (not commit or len({id for id, _ in same}) == 1)
        answer = self.state.repeated(keys, commit=commit)
        assert (answer is not None) == is_known
        if answer is not None:
            assert answer.producers == [ProducerKey(outcome.next_id, outcome.next_epoch) for _, outcome in same]

    @invariant()
    def what_is_unfinished_is_decided_and_not_completed(self) -> None:
        ids = {event.id for event in self.history if isinstance(event, Decided)}
        done = {id for event in self.history if isinstance(event, Completed) for id in event.ids}
        assert set(self.state.unfinished) == ids - done

    @invariant()
    def counts_are_right(self) -> None:
        all = [event for event in self.history if isinstance(event, Decided)]
        assert self.state.commits == sum(event.commit for event in all)
        assert self.state.aborts == sum(len(event.outcomes) for event in all if not event.commit)


TestState = StateAgainstHistory.TestCase
TestState.settings = settings(max_examples=60, stateful_step_count=30)


@given(st.integers(0, 5))
def test_an_open_transaction_is_committed_only_if_that_was_decided(epoch: int) -> None:
    state = TransactionState()
    state.apply(Initialized(1, 2, None, 1000, 0))
    state.apply(decided(1, (1, 2)))
    assert state.was_committed(1, epoch) == (epoch == 2)
    state.apply(Completed([1]))
    assert state.was_committed(1, epoch) == (epoch == 2), "also when it was thought to be known everywhere"
    state.apply(decided(2, (1, 3), commit=False))
    assert not state.was_committed(1, 3)


def test_a_key_is_remembered_for_a_week() -> None:
    state = TransactionState()
    state.apply(Initialized(1, 0, None, 1000, 0))
    state.apply(decided(1, (1, 0), key="batch", at_ms=1000))
    state.apply(decided(2, (1, 1), at_ms=1000 + COMMIT_KEYS_REMEMBERED_MS))
    assert state.keyed(CommitKey("batch")) == (True, [ProducerKey(1, 1)], True)
    state.apply(decided(3, (1, 2), at_ms=1001 + COMMIT_KEYS_REMEMBERED_MS))
    assert state.keyed(CommitKey("batch")) is None


def test_a_key_stands_for_what_it_was_described_as() -> None:
    state = TransactionState()
    state.apply(Initialized(1, 0, None, 1000, 0))
    state.apply(msgspec.structs.replace(decided(1, (1, 0), key="batch"), description="2 rows"))
    state.apply(decided(2, (1, 1), key="plain"))
    again = TransactionState()
    again.restore(b"".join(state.snapshot()))
    for each in (state, again):
        for same in (CommitKey("batch"), CommitKey("batch", "2 rows"), CommitKey("plain", "5 rows")):
            answer = each.keyed(same)
            assert answer is not None
            assert answer.is_repeat
        with pytest.raises(CommitKeyConflict, match="'batch' was used for '2 rows' and now comes with '3 rows'"):
            each.keyed(CommitKey("batch", "3 rows"))


def test_a_decision_of_before_descriptions() -> None:
    """A journal may hold records without the last field."""
    record = msgspec.msgpack.encode(msgspec.msgpack.decode(CODEC.encode(decided(1, (1, 0), key="batch")))[:-1])
    assert CODEC.decode(record) == decided(1, (1, 0), key="batch")


def test_when_the_epochs_are_used_up_the_producer_goes_on_under_another_id() -> None:
    state = TransactionState()
    state.apply(Initialized(1, LAST_EPOCH, "id", 1000, 0))
    state.apply(Decided(1, True, "request", 5, [ProducerOutcome(1, LAST_EPOCH, 77, 0, [])]))
    assert state.ids == {"id": 77}
    assert state.check(77, 0).transactional_id == "id"
    assert state.repeated([ProducerKey(1, LAST_EPOCH)], commit=True) == (True, [ProducerKey(77, 0)], True)
    for epoch in (LAST_EPOCH, LAST_EPOCH + 1):
        with pytest.raises(ProducerFenced):
            state.check(1, epoch)


def test_what_is_left_of_a_decision_is_what_was_noted() -> None:
    state = TransactionState()
    state.apply(Initialized(1, 0, None, 1000, 0))
    state.apply(decided(1, (1, 0)))
    state.apply(MarkersLeft(1, [ProducerOutcome(1, 0, 1, 1, [Participant(2, 3)])]))
    assert [outcome.participants for outcome in state.unfinished[1].outcomes] == [[Participant(2, 3)]]
    assert state.unfinished[1].commit


@pytest.mark.parametrize(
    ("event", "record"),
    [
        (Initialized(7, 2, "id", 60_000, 1000), "96000702a26964cdea60cd03e8"),
        (Touched(7, 2), "93010702"),
        (
            Decided(
                5,
                True,
                "request",
                1000,
                [ProducerOutcome(7, 2, 7, 3, [Participant(1, 0), Participant(1, 1, True)])],
                "key",
                [GroupOffsetCommit("g", [CommitPart(1, 0, 42, "m")], "me", 3)],
                [LeasedAcks(1, 2, 3, 4, [(0, 5)])],
                [4],
                "what",
            ),
            "9b0205c3a772657175657374cd03e891950702070392930100c2930101c3a36b65799194a167919401002aa16da26d6503"
            "919501020304919200059104a477686174",
        ),
        (MarkersLeft(5, [ProducerOutcome(7, 2, 7, 3, [Participant(1, 0)])]), "93030591950702070391930100c2"),
        (Completed([5]), "92049105"),
        (Forgotten([7]), "92059107"),
    ],
)
def test_records_of_the_journal_keep_their_format(event: Event, record: str) -> None:
    assert CODEC.encode(event).hex() == record
    assert CODEC.decode(bytes.fromhex(record)) == event
