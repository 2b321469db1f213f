"""The checks of a cluster find what they are there for."""

from pathlib import Path

from blackbox.cluster.chaos.replicas import check_replicas
from blackbox.cluster.chaos.transfers import check_bank
from blackbox.interleaving.checks.evidence import Evidence
from blackbox.interleaving.final_state import FinalState, Stored


def test_no_money_is_made() -> None:
    paid = Stored("copies", 0, 0, "bank.teller-0.0.0:-5")
    other = Stored("copies", 0, 1, "copying:orders.1")
    assert not list(
        check_bank(Evidence([], FinalState([paid, other, Stored("copies", 1, 0, "bank.teller-0.0.1:5")])))
    )
    assert list(check_bank(Evidence([], FinalState([paid, other]))))


def test_replicas_have_the_same_bytes(tmp_path: Path) -> None:
    def write(node: int, *segments: bytes) -> None:
        partition = tmp_path / str(node) / "logs/units/2/topics/1/0"
        partition.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(segments):
            (partition / f"{number:020}.log").write_bytes(content)

    def differences() -> list[str]:
        return [each.sentence for each in check_replicas({node: tmp_path / str(node) for node in (1, 2)}, [1])]

    assert "no node has files" in differences()[0]
    write(1, b"one", b"two", b"\0\0")
    assert "differ from byte 0 on" in differences()[0]
    write(2, b"onetwo\0\0\0\0")
    assert not differences()
    write(2, b"oneTwo")
    assert "differ from byte 3 on: {1: 6, 2: 6}" in differences()[0]
