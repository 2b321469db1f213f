"""The program whose tables are in docs/scale.md."""

import subprocess
import sys

import pytest
from benchmarks.cluster_size.decisions import COLUMNS, led_units, measure_decisions
from benchmarks.cluster_size.decisions import all_nodes as nodes_of_size
from benchmarks.servers.etcd import EtcdServers

from tidy.source_tree import ROOT


def test_decisions_are_those_of_the_controller() -> None:
    [row] = measure_decisions([300])
    assert len(row) == len(COLUMNS)
    assert row[0] == "300"
    assert row[2].endswith(" 0 units"), "nothing to do"
    lost = sum(unit.leader == 100 for unit in led_units(300, nodes_of_size()).values())
    assert row[3].endswith(f" {lost} units")
    assert 0 < lost < 10


def test_a_lost_node_is_replaced_in_a_real_etcd() -> None:
    if (reason := EtcdServers.missing()) is not None:
        pytest.skip(reason)
    command = [sys.executable, "-m", "benchmarks.cluster_size", "--parts", "failover", "--units", "250"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    row = [cell.strip() for cell in done.stdout.splitlines()[-1].strip("|").split("|")]
    assert (row[0], row[3]) == ("250", "1"), "all changes in one transaction"
