"""Redrives as jobs and errors by shape through the shipped program."""

from typing import Any

from blackbox.callers.failing_work import FailingWork
from blackbox.processes.broker_process import BrokerProcess, wait_until


def test_a_redrive_as_a_job(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "jobs", partitions=2)
    work.kill_off("a", "b", "c", reason="no row 17 in 'users'")
    work.wait_for_dead_letters(3)
    status, found = shared_broker.request("GET", "/topics/jobs/dlq/errors")
    assert status == 200
    [error] = found["errors"]
    assert (error["shape"], error["reason"], error["count"]) == ("no row # in '*'", "rejected", 3)
    assert error["example"] == "no row 17 in 'users'"
    status, begun = shared_broker.request("POST", "/topics/jobs/dlq/redrive", {"rate": 1000})
    assert (status, begun["state"]) == (200, "running")

    def ended() -> dict[str, Any] | None:
        job = shared_broker.request("GET", f"/jobs/{begun['id']}")[1]
        return job if job["state"] != "running" else None

    job = wait_until(ended, 30, "the redrive")
    assert (job["state"], job["moved"], job["total"], job["rate"]) == ("done", 3, 3, 1000)
    assert sorted(message["value"] for message in work.receive(3)) == ["a", "b", "c"]
    listed = shared_broker.request("GET", "/jobs")[1]["jobs"]
    assert listed[0]["id"] == begun["id"]
    assert shared_broker.request("DELETE", f"/jobs/{begun['id']}")[1]["state"] == "done"
    assert shared_broker.request("GET", "/jobs/nothing")[1]["code"] == "job_not_found"
    assert shared_broker.request("POST", "/topics/jobs/dlq/redrive", {"rate": 0})[0] == 400
    assert shared_broker.request("POST", "/topics/jobs/dlq/redrive", {"job": True, "dry_run": True})[0] == 400
