"""The checks of `quiver doctor`, each from good to bad."""

import pytest

from quiver.app.config import Config, shown_values
from quiver.cli.doctor.finding import Finding, Verdict, ok, problem, shortened, warning, worst
from quiver.cli.doctor.health_checks import check_health, check_versions
from quiver.cli.doctor.machine_checks import check_clock, check_disk, check_newest_file, check_open_files
from quiver.cli.doctor.settings_checks import check_settings
from quiver.cli.doctor.work_checks import DeadLetterCount, GroupWork, check_dead_letters, check_groups
from quiver.model.limits import MIB
from quiver.system.machine import FileSystem, OpenFileUse

GIB = 1024 * MIB


def verdicts(findings: list[Finding]) -> list[str]:
    return [str(finding.verdict) for finding in findings]


@pytest.mark.parametrize(
    ("kind", "free", "expected"),
    [
        ("ext4", 50 * GIB, ["ok"]),
        ("ext4", 9 * GIB, ["warning"]),
        ("xfs", 255 * MIB, ["problem"]),
        ("tmpfs", 50 * GIB, ["ok", "warning"]),
        ("nfs4", 50 * GIB, ["ok", "warning"]),
        ("overlay", 1, ["problem", "warning"]),
        ("", 50 * GIB, ["ok"]),
    ],
)
def test_disk(kind: str, free: int, expected: list[str]) -> None:
    found = list(check_disk("/data", FileSystem(kind, "/", 100 * GIB, free), 256 * MIB))
    assert verdicts(found) == expected
    assert all(finding.advice for finding in found if finding.verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("use", "verdict"),
    [((10, 20_000), "ok"), ((10, 1024), "warning"), ((900, 1024), "problem"), ((16_001, 20_000), "problem")],
)
def test_open_files(use: tuple[int, int], verdict: str) -> None:
    assert check_open_files("the broker", OpenFileUse(*use)).verdict == verdict


@pytest.mark.parametrize(
    ("broker", "verdict", "words"),
    [
        (5_000, "ok", "agrees"),
        (12_999, "ok", "agrees"),  # the response took its time, so nothing more is known
        (13_001, "warning", "2.0 s ahead of"),
        (-1001, "warning", "2.0 s behind"),
        (400_000, "problem", "ahead of"),
    ],
)
def test_clock(broker: int, verdict: str, words: str) -> None:
    found = check_clock(broker, 1_000, 11_000)
    assert found.verdict == verdict
    assert words in found.message


def test_files_from_the_future() -> None:
    assert check_newest_file("/data", 10_000, 9_000) is None
    late = check_newest_file("/data", 70_000, 10_000)
    assert late is not None
    assert "60 s in the future" in late.message


def test_settings() -> None:
    assert verdicts(list(check_settings(shown_values(Config())))) == ["ok"]
    risky = Config(host="0.0.0.0", auto_create=True, slow_client_rate=0, log_level="debug", log_requests=True)
    found = list(check_settings(shown_values(risky)))
    assert [finding.message.split()[0] for finding in found] == [
        *("host", "auto_create", "slow_client_rate", "log_level", "log_requests")
    ]
    assert verdicts(list(check_settings({"host": "localhost"}))) == ["ok"], "of another version, with fewer settings"


def ready(**changes: object) -> dict[str, object]:
    good = {"status": "pass", "message": "fine", "latency": 0.0}
    return {"checks": dict.fromkeys(("disk", "storage", "event_loop_lag", "memory"), good)} | changes


def test_health() -> None:
    assert verdicts(list(check_health(ready(), {"orders"}))) == ["ok", "ok"]
    bad = {"status": "fail", "message": "1200 MiB of 1000 MiB", "latency": 0.0}
    [memory, _] = check_health(ready(checks={"memory": bad, "disk": bad | {"status": "pass"}}), set())
    assert memory.verdict is Verdict.PROBLEM
    assert memory.message == "memory: 1200 MiB of 1000 MiB"
    assert "memory_budget" in memory.advice


def test_partitions_of_one_topic_are_one_finding() -> None:
    problems = {
        "or-ders-0": "EIO",
        "or-ders-1": "EIO",
        "or-ders-2": "ENOSPC",
        "groups": "corrupt",
        "task retention": "x",
    }
    found = list(check_health(ready(problems=problems, warnings={"a-0": "damaged"}), {"or-ders"}))
    assert [(finding.check, str(finding.verdict), finding.message) for finding in found] == [
        ("topics", "problem", "or-ders takes no writes in partition 0, 1: EIO"),
        ("topics", "problem", "or-ders takes no writes in partition 2: ENOSPC"),
        ("health", "problem", "groups: corrupt"),
        ("health", "problem", "task retention: x"),
        ("health", "warning", "a-0: damaged"),
    ]


def test_versions() -> None:
    assert verdicts(list(check_versions({"version": "1", "python": "3.12"}, "1", "3.11"))) == ["ok"]
    [other] = check_versions({"version": "2"}, "1", "3.11")
    assert "quivermq==2" in other.advice


def test_groups() -> None:
    done = GroupWork("done", "stream", 0, 0, 0, 0)
    slow = GroupWork("slow", "stream", 2, 7, 10 * 60_000, 0)
    alone = GroupWork("alone", "queue", 0, 1, 0, 0)
    busy = GroupWork("busy", "queue", 0, 1, 0, 3)
    assert verdicts(list(check_groups([done, busy]))) == ["ok"]
    found = list(check_groups([done, slow, alone, busy]))
    assert [finding.message.split()[0] for finding in found] == ["slow", "alone"]
    assert "the oldest 10m old" in found[0].message


def test_dead_letters() -> None:
    assert verdicts(list(check_dead_letters([]))) == ["ok"]
    [old] = check_dead_letters([DeadLetterCount("a", 5, 0)])
    assert (old.verdict, old.message) == (Verdict.OK, "5 wait, none came in the last hour")
    [new] = check_dead_letters([DeadLetterCount("a", 5, 0), DeadLetterCount("b", 2, 1)])
    assert "quiver dlq redrive b" in new.advice


def test_many_findings_are_cut_and_the_worst_counts() -> None:
    many = [problem("health", str(number), "do") for number in range(30)]
    cut = shortened(many, 20)
    assert len(cut) == 21
    assert cut[-1].message == "and 10 more like the ones above"
    assert worst([ok("a", ""), warning("b", "", ""), ok("c", "")]) is Verdict.WARNING
    assert worst([]) is Verdict.OK
