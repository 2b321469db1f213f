"""The leader's decisions against coordination as it really is: no member of the set ever lacks what is committed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.replication.leader import Leader
from quiver.replication.unit import Unit

NODES = (0, 1, 2)
LOGS = (1, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["write", "copy", "copy_some", "leave", "restart"]),
            st.tuples(st.sampled_from(NODES), st.sampled_from(LOGS)),
        ),
        st.tuples(st.sampled_from(["join", "apply", "read"]), st.just((0, 1))),
    ),
    max_size=60,
)


class Model:
    """What coordination has, the writes on their way to it, and what each replica has on disk of two logs."""

    def __init__(self, min_isr: int, election_end: int) -> None:
        self.unit = Unit(replicas=NODES, isr=(0, 1), leader=0, epoch=3, min_isr=min_isr)
        self.revision = 10
        self.elected = {1: election_end, 2: 3}
        self.ends = {log: {0: end, 1: end, 2: 0} for log, end in self.elected.items()}
        self.on_their_way: list[tuple[Unit, int]] = []
        self.leader = Leader(0, self.unit, self.revision)
        for log, end in self.elected.items():
            self.leader.add_log(log, election_end=end, end_offset=end)

    def write(self, count: int, log: int) -> None:
        """The leader writes, and syncs all but the last of it."""
        self.ends[log][0] += count + 1
        self._confirm(0, log, self.ends[log][0] - 1)

    def copy(self, node: int, log: int) -> None:
        """A replica gets everything, and confirms it; the leader syncs what it has."""
        self.ends[log][node] = self.ends[log][0]
        self._confirm(node, log, self.ends[log][node])

    def copy_some(self, node: int, log: int) -> None:
        self.ends[log][node] = min(self.ends[log][node] + 1, self.ends[log][0])
        self._confirm(node, log, self.ends[log][node])

    def _confirm(self, node: int, log: int, end: int) -> None:
        self.leader.confirm(node, log, end, end)

    def restart(self, node: int, _: int) -> None:
        if node:
            self.leader.forget(node)

    def leave(self, node: int, _: int) -> None:
        self._propose(tuple(each for each in self.leader.unit.isr if each != node))

    def join(self, _: int, __: int) -> None:
        self._propose((*self.leader.unit.isr, *self.leader.joiners()))

    def _propose(self, wanted: tuple[int, ...]) -> None:
        proposed = self.leader.propose(wanted)
        if proposed is not None:
            self.on_their_way.append((proposed, self.leader.revision))

    def apply(self, _: int, __: int) -> None:
        """A write arrives: compare-and-swap."""
        if self.on_their_way:
            unit, expected = self.on_their_way.pop()
            if expected == self.revision:
                self.unit, self.revision = unit, self.revision + 1

    def read(self, _: int, __: int) -> None:
        assert self.leader.adopt(self.unit, self.revision)

    def watermarks(self) -> dict[int, int]:
        return {log: progress.watermark for log, progress in self.leader.logs.items()}

    def check(self, committed: dict[int, int]) -> None:
        """What the leader had at its election may have been committed by the one before."""
        for log, watermark in self.watermarks().items():
            assert watermark >= committed[log]
            enough = max(watermark, self.elected[log])
            for node in self.unit.isr:
                assert self.ends[log][node] >= enough, f"node {node} could be elected without what is committed"
            for node in self.unit.elr:
                assert self.ends[log][node] >= enough, f"node {node} is eligible without what is committed"


@settings(max_examples=600)
@given(STEPS, st.integers(1, 3), st.integers(0, 5))
def test_whoever_may_be_elected_has_everything_that_is_committed(
    steps: list[tuple[str, tuple[int, int]]], min_isr: int, election_end: int
) -> None:
    model = Model(min_isr, election_end)
    for name, (node, log) in steps:
        before = model.watermarks()
        getattr(model, name)(node, log)
        model.check(before)


class OneLog:
    """A leader of a unit with one log."""

    def __init__(self, isr: tuple[int, ...], min_isr: int, end: int) -> None:
        unit = Unit(replicas=(0, 1, 2), isr=isr, leader=0, epoch=5, min_isr=min_isr)
        self.leader = Leader(0, unit, 1)
        self.leader.add_log(1, election_end=end, end_offset=end)
        self.propose, self.adopt, self.joiners = self.leader.propose, self.leader.adopt, self.leader.joiners

    def confirm(self, node: int, end: int) -> bool:
        return self.leader.confirm(node, 1, end, end)

    @property
    def watermark(self) -> int:
        return self.leader.logs[1].watermark

    @property
    def is_open(self) -> bool:
        return self.leader.is_open

    @property
    def unit(self) -> Unit:
        return self.leader.unit

    @property
    def proposed(self) -> Unit | None:
        return self.leader.proposed


def leader_of(*, isr: tuple[int, ...] = (0, 1, 2), min_isr: int = 2, end: int = 10) -> OneLog:
    return OneLog(isr, min_isr, end)


def test_the_watermark_waits_for_the_whole_set() -> None:
    leader = leader_of()
    assert not leader.confirm(1, 10)
    assert not leader.is_open
    assert leader.confirm(2, 8)
    assert (leader.watermark, leader.is_open) == (8, False)
    assert leader.confirm(2, 10)
    assert leader.is_open
    assert not leader.confirm(2, 9)


def test_a_member_leaves_in_coordination_first() -> None:
    leader = leader_of()
    leader.confirm(1, 10)
    proposed = leader.propose((0, 1))
    assert proposed is not None
    assert leader.watermark == 0
    assert leader.propose((0, 1, 2)) is proposed
    assert leader.adopt(leader.unit, 1)
    assert leader.proposed is proposed, "the write may still be on its way"
    assert leader.adopt(proposed, 2)
    assert leader.watermark == 10


def test_below_the_minimum_nothing_moves_and_who_left_is_eligible() -> None:
    leader = leader_of(isr=(0, 1))
    leader.confirm(1, 10)
    alone = leader.propose(())
    assert alone is not None
    assert (alone.isr, alone.elr) == ((0,), (1,))
    assert leader.adopt(alone, 2)
    leader.confirm(0, 20)
    assert leader.watermark == 10
    leader.confirm(2, 9)
    assert leader.joiners() == (1,)
    leader.confirm(2, 20)
    back = leader.propose((0, *leader.joiners()))
    assert back is not None
    assert (set(back.isr), back.elr) == ({0, 1, 2}, ())
    assert leader.adopt(back, 3)
    assert leader.watermark == 10
    leader.confirm(1, 20)
    assert leader.watermark == 20


def test_a_new_leader_lets_nobody_in_below_what_it_had() -> None:
    leader = leader_of(isr=(0, 1))
    leader.confirm(2, 9)
    assert leader.joiners() == ()
    leader.confirm(2, 10)
    assert leader.joiners() == (2,)


def test_another_epoch_deposes() -> None:
    leader = leader_of()
    assert not leader.adopt(Unit(replicas=(0, 1), isr=(0, 1), leader=1, epoch=6), 2)


def test_a_replica_joins_when_it_has_all_logs() -> None:
    leader = leader_of(isr=(0, 1))
    leader.leader.add_log(2, election_end=0, end_offset=0)
    leader.confirm(2, 10)
    assert leader.joiners() == ()
    leader.leader.confirm(2, 2, 0, 0)
    assert leader.joiners() == (2,)
    leader.leader.remove_log(2)
    assert leader.joiners() == (2,)


def test_what_is_written_and_what_is_synced_are_counted_apart() -> None:
    leader = leader_of().leader
    for node in (0, 1, 2):
        leader.confirm(node, 1, 20, 10 + node)
    assert (leader.logs[1].watermark, leader.logs[1].synced_watermark) == (20, 10)


def test_whoever_lost_something_is_not_eligible() -> None:
    leader = leader_of(isr=(0, 1)).leader
    proposed = leader.propose((0,), lost=(1,), is_volatile=True)
    assert proposed is not None
    assert (proposed.isr, proposed.elr, proposed.is_volatile) == ((0,), (), True)
    assert leader.adopt(proposed, 2)
    leader.confirm(1, 1, 10, 10)
    back = leader.propose((0, *leader.joiners()), joined={1: 4})
    assert back is not None
    assert (set(back.isr), back.joined) == ({0, 1}, {1: 4})


def test_a_leader_to_whom_nobody_replies_asks_for_a_successor() -> None:
    leader = leader_of(isr=(0, 1)).leader
    assert leader.propose((0, 1), is_alone=True) is None, "the set is large enough"
    left = leader.propose((0,))
    assert left is not None
    assert (left.isr, left.wants_successor) == ((0,), False)
    assert leader.adopt(left, 2)
    asked = leader.propose((0,), is_alone=True)
    assert asked is not None
    assert (asked.elr, asked.wants_successor) == ((1,), True)
    assert leader.adopt(asked, 3)
    assert leader.propose((0,), is_alone=True) is None, "it is known"
    back = leader.propose((0, 1))
    assert back is not None
    assert (back.isr, back.wants_successor) == ((0, 1), False)
