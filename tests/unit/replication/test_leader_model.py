"""The leader's decisions against coordination as it really is: no member of the set ever lacks what is committed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.replication.leader import Leader
from quiver.replication.unit import Unit

NODES = (0, 1, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["write", "copy", "copy_some", "leave"]), st.sampled_from(NODES)),
        st.tuples(st.sampled_from(["join", "apply", "read"]), st.just(0)),
    ),
    max_size=60,
)


class Model:
    """What coordination has, the writes on their way to it, and what each replica has on disk."""

    def __init__(self, min_isr: int, election_end: int) -> None:
        self.unit = Unit(replicas=NODES, isr=(0, 1), leader=0, epoch=3, min_isr=min_isr)
        self.revision, self.election_end = 10, election_end
        self.ends = {0: election_end, 1: election_end, 2: 0}
        self.on_their_way: list[tuple[Unit, int]] = []
        self.leader = Leader(0, self.unit, self.revision, election_end)

    def write(self, count: int) -> None:
        """The leader writes, and syncs all but the last of it."""
        self.ends[0] += count + 1
        self.leader.confirm(0, self.ends[0] - 1)

    def copy(self, node: int) -> None:
        """A replica gets everything, and confirms it; the leader syncs what it has."""
        self.ends[node] = self.ends[0]
        self.leader.confirm(node, self.ends[node])

    def copy_some(self, node: int) -> None:
        self.ends[node] = min(self.ends[node] + 1, self.ends[0])
        self.leader.confirm(node, self.ends[node])

    def leave(self, node: int) -> None:
        self._propose(tuple(each for each in self.leader.unit.isr if each != node))

    def join(self, _: int) -> None:
        self._propose((*self.leader.unit.isr, *self.leader.joiners()))

    def _propose(self, wanted: tuple[int, ...]) -> None:
        proposed = self.leader.propose(wanted)
        if proposed is not None:
            self.on_their_way.append((proposed, self.leader.revision))

    def apply(self, _: int) -> None:
        """A write arrives: compare-and-swap."""
        if self.on_their_way:
            unit, expected = self.on_their_way.pop()
            if expected == self.revision:
                self.unit, self.revision = unit, self.revision + 1

    def read(self, _: int) -> None:
        assert self.leader.adopt(self.unit, self.revision)

    def check(self, committed: int) -> None:
        """What the leader had at its election may have been committed by the one before."""
        assert self.leader.watermark >= committed
        watermark = max(self.leader.watermark, self.election_end)
        for node in self.unit.isr:
            assert self.ends[node] >= watermark, f"node {node} could be elected without what is committed"
        for node in self.unit.elr:
            assert self.ends[node] >= watermark, f"node {node} is eligible without what is committed"


@settings(max_examples=600)
@given(STEPS, st.integers(1, 3), st.integers(0, 5))
def test_whoever_may_be_elected_has_everything_that_is_committed(
    steps: list[tuple[str, int]], min_isr: int, election_end: int
) -> None:
    model = Model(min_isr, election_end)
    for name, node in steps:
        before = model.leader.watermark
        getattr(model, name)(node)
        model.check(before)


def leader_of(*, isr: tuple[int, ...] = (0, 1, 2), min_isr: int = 2, end: int = 10) -> Leader:
    unit = Unit(replicas=(0, 1, 2), isr=isr, leader=0, epoch=5, min_isr=min_isr)
    return Leader(0, unit, 1, end)


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
