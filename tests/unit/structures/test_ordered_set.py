"""A set with an order."""

from quiver.structures.ordered_set import OrderedSet


def test_members_come_in_the_order_in_which_they_were_added() -> None:
    members: OrderedSet[object] = OrderedSet()
    added = [object() for _ in range(100)]
    for one in added:
        members.add(one)
    members.add(added[0])
    members.discard(added[50])
    members.discard(object())
    assert list(members) == added[:50] + added[51:]
    assert added[0] in members
    assert added[50] not in members
