from quiver.metrics.labels import NameLabels, SharedCounts
from quiver.telemetry.exposition import Collected, Series

COUNT = Series("t_total", "counter", ("topic",), "Things")


def test_the_first_names_have_labels_and_the_rest_share_one() -> None:
    labels = NameLabels(most=2)
    labels.update({5: "e", 1: "a", 3: "c"})
    assert [labels.of(id) for id in (1, 3, 5)] == ["a", "c", ""]


def test_a_label_never_changes_while_its_name_exists() -> None:
    labels = NameLabels(most=2)
    labels.update({1: "a", 3: "c", 5: "e"})
    labels.update({3: "c", 5: "e"})
    assert [labels.of(id) for id in (3, 5)] == ["c", ""]
    labels.update({3: "c", 5: "e", 7: "g"})
    assert [labels.of(id) for id in (3, 5, 7)] == ["c", "", "g"], "the label that became free is for new ones"


def shared_sum(shared: SharedCounts, counts: dict[int, int]) -> float:
    collected = Collected()
    shared.begin()
    for owner, count in counts.items():
        shared.add(("topic", owner), [(COUNT, count, ("",))])
    shared.end(collected)
    return collected.numbers["t_total"][("",)]


def test_a_shared_counter_does_not_fall_when_one_that_shares_it_is_deleted() -> None:
    shared = SharedCounts()
    assert shared_sum(shared, {1: 10, 2: 5}) == 15
    assert shared_sum(shared, {2: 6}) == 16
    assert shared_sum(shared, {2: 6, 3: 1}) == 17
    assert shared_sum(shared, {}) == 17
