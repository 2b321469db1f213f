"""Recurring schedules and the end of their broker: nothing twice, nothing lost, what was missed is made up for."""

import itertools

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.model.times import parse_time_ms

SECONDS = 20.0
EVERY_MS = {"fast": 100, "slow": 300, "cron": 1_000}


def firings(broker: BrokerProcess) -> dict[str, list[tuple[int, bool]]]:
    """Per schedule, the times its messages were due at, in the order they arrived, and whether they were late."""
    found: dict[str, list[tuple[int, bool]]] = {name: [] for name in EVERY_MS}
    with quiver.connect(broker.address) as q:
        for message in q.read("ticks", end="latest"):
            at_ms = parse_time_ms(message.headers["schedule.time"].decode())
            found[message.headers["schedule.name"].decode()].append((at_ms, "schedule.late" in message.headers))
    return found


def count(broker: BrokerProcess) -> int:
    return sum(map(len, firings(broker).values()))


@pytest.fixture
def ticking(start_broker) -> BrokerProcess:  # type: ignore[no-untyped-def]
    broker: BrokerProcess = start_broker()
    with quiver.connect(broker.address) as q:
        q.topics.create("ticks", partitions=1)
        for name, expression in {"fast": "@every 100ms", "slow": "@every 300ms", "cron": "* * * * * *"}.items():
            q.schedules.add(expression, "ticks", name, name=name, key=name)
    return broker


def check(found: dict[str, list[tuple[int, bool]]]) -> None:
    for name, times in found.items():
        at = [at_ms for at_ms, _ in times]
        assert at == sorted(set(at)), f"{name}: a firing came twice, or out of order"
        for (before_ms, _), (at_ms, is_late) in itertools.pairwise(times):
            assert (at_ms - before_ms) % EVERY_MS[name] == 0, f"{name}: {at_ms} is none of its times"
            assert is_late or at_ms - before_ms == EVERY_MS[name], f"{name}: a firing is missing before {at_ms}"


def test_kills_neither_double_nor_lose(ticking: BrokerProcess) -> None:
    for turn in range(5):
        seen = count(ticking)
        wait_until(lambda seen=seen, turn=turn: count(ticking) > seen + turn, SECONDS, "it fires")
        ticking.restart(kill=True)
    with quiver.connect(ticking.address) as q:
        for name in EVERY_MS:
            wait_until(lambda name=name: firings(ticking)[name], SECONDS, f"{name} fires")
            q.schedules.pause(name)
        counts = {schedule.name: schedule.fired_count for schedule in q.schedules.list()}
    wait_until(lambda: {n: len(t) for n, t in firings(ticking).items()} == counts, SECONDS, "all have arrived")
    check(firings(ticking))
    assert any(is_late for _, is_late in firings(ticking)["fast"])
    ticking.restart(kill=True)
    assert {name: len(times) for name, times in firings(ticking).items()} == counts, "nothing comes again"


def test_a_clean_restart_makes_up_for_what_was_missed_once(ticking: BrokerProcess) -> None:
    wait_until(lambda: all(firings(ticking).values()), SECONDS, "each has fired")
    ticking.terminate()
    ticking.start()
    seen = count(ticking)
    wait_until(lambda: count(ticking) > seen + 10, SECONDS, "they go on")
    found = firings(ticking)
    check(found)
    assert sum(is_late for _, is_late in found["fast"]) >= 1
    assert not all(is_late for _, is_late in found["fast"])


def test_schedules_and_their_settings_outlive_a_kill(ticking: BrokerProcess) -> None:
    with quiver.connect(ticking.address) as q:
        for name in EVERY_MS:
            q.schedules.pause(name)
        q.schedules.alter("cron", cron="0 4 * * *", timezone="America/New_York", value=b"\xff\0", headers={"a": "b"})
        q.schedules.remove("slow")
        before = q.schedules.list()
    ticking.restart(kill=True)
    with quiver.connect(ticking.address) as q:
        assert q.schedules.list() == before
        assert [schedule.name for schedule in before] == ["cron", "fast"]
