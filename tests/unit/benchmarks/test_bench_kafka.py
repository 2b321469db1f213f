"""Kafka as a peer: found where `make bench-peers` puts it, skipped with a reason, and a run of every role."""

import pickle
from pathlib import Path

import pytest
from benchmarks.payload import Payload
from benchmarks.peers import all_peers
from benchmarks.peers.kafka.installation import kafka_absence, kafka_version
from benchmarks.peers.kafka.subject import Kafka
from benchmarks.roles import Role, run_roles

SMALL, JSON = Payload(100), Payload(1024, "JSON", "lz4")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "quiver-bench" / "kafka"


def test_the_version_is_that_of_the_jars(cache: Path) -> None:
    assert kafka_version() is None
    cache.mkdir(parents=True)
    (cache / "kafka_2.13-4.3.1.jar").touch()
    assert kafka_version() == "4.3.1"


def test_without_it_a_run_is_told_why(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.kafka.installation.find_program", lambda name: f"/usr/bin/{name}")
    assert "make bench-peers" in (kafka_absence() or "")
    monkeypatch.setattr("benchmarks.peers.kafka.installation.find_program", lambda name: None)
    assert "java is not installed" in (kafka_absence() or "")


def test_it_is_compared_in_both_durabilities_and_with_both_clients() -> None:
    found = {peer.name: peer for peer in all_peers() if isinstance(peer, Kafka)}
    assert set(found) == {"kafka", "kafka-flushed", "kafka-python"}
    assert found["kafka"].durability != found["kafka-flushed"].durability
    assert pickle.loads(pickle.dumps(found["kafka"])).topic == found["kafka"].topic


@pytest.mark.parametrize("language", ["Java", "Python"])
def test_every_role_runs(language: str, tmp_path: Path) -> None:
    subject = Kafka("kafka", language=language, flushed=True)  # type: ignore[arg-type]
    if (reason := subject.missing()) is not None:
        pytest.skip(f"Kafka: {reason}")
    try:
        subject.start(tmp_path)
        subject.reset()
        run_roles({"consume": Role(subject.consume, (500,)), "produce": Role(subject.produce, (500, JSON))})
        subject.reset()
        paced = {
            "consume": Role(subject.consume_stamped, (50,)),
            "produce": Role(subject.produce_paced, (50, SMALL, 1_000.0)),
        }
        outcomes = run_roles(paced)
        for outcome in outcomes.values():
            assert len(outcome.result) == 50
            assert all(0 < seconds < 60 for seconds in outcome.result)
        if subject.keyed_messages:
            subject.reset_wide(5)
            produced = run_roles({"produce": Role(subject.produce_keyed, (1_000, SMALL))})["produce"]
            assert produced.cpu_seconds > 0
            run_roles({"consume": Role(subject.consume, (1_000,))})
    finally:
        subject.stop()
