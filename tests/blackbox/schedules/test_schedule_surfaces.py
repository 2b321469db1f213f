"""Recurring schedules through the SDK, HTTP and the command line of the shipped program."""

import json
import re
import shlex
from pathlib import Path

import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.processes.cli_process import Cli
from quiver.model.errors import InvalidRequest, ScheduleExists, ScheduleNotFound, TopicNotFound

SECONDS = 20.0


@pytest.fixture
def topic(q: quiver.Client) -> str:
    return new_topic(q, partitions=2)


def messages(broker: BrokerProcess, topic: str) -> list[quiver.Message]:
    with quiver.connect(broker.address) as q:
        return list(q.read(topic, end="latest"))


def arrived(broker: BrokerProcess, topic: str, count: int) -> list[quiver.Message]:
    def enough() -> list[quiver.Message] | None:
        found = messages(broker, topic)
        return found if len(found) >= count else None

    return wait_until(enough, SECONDS, f"{count} messages of the schedule")


class TestSdk:
    def test_from_add_to_remove(self, shared_broker: BrokerProcess, topic: str) -> None:
        with quiver.connect(shared_broker.address) as q:
            added = q.schedules.add(
                "@every 100ms", topic, {"n": 1}, name=topic, key="k", headers={"h": "x"}, priority="high"
            )
            assert (added.name, added.cron, added.topic, added.value, added.fired_count) == (
                topic,
                "@every 100ms",
                topic,
                b'{"n":1}',
                0,
            )
            assert added.next_ms == added.created_at_ms + 100
            found = arrived(shared_broker, topic, 3)
            assert {m.partition for m in found} == {found[0].partition}
            for message in found:
                assert (message.json(), message.key, message.priority) == ({"n": 1}, b"k", "high")
                assert message.headers["h"] == b"x"
                assert message.headers["schedule.name"] == topic.encode()
            paused = q.schedules.pause(topic)
            assert (paused.is_paused, paused.next_ms) == (True, None)
            before = q.schedules.get(topic)
            assert before.fired_count >= 3
            ran = q.schedules.run(topic)
            assert (ran.fired_count, ran.next_ms) == (before.fired_count + 1, None)
            manual = [m for m in messages(shared_broker, topic) if "schedule.manual" in m.headers]
            assert len(manual) == 1
            changed = q.schedules.alter(topic, cron="0 0 1 1 *", key=None, value="text", timezone="Asia/Tokyo")
            assert (changed.key, changed.value, changed.timezone, changed.is_paused) == (
                None,
                b"text",
                "Asia/Tokyo",
                True,
            )
            assert q.schedules.resume(topic).next_ms is not None
            assert topic in [schedule.name for schedule in q.schedules.list()]
            q.schedules.remove(topic)
            with pytest.raises(ScheduleNotFound):
                q.schedules.get(topic)

    def test_what_is_refused(self, shared_broker: BrokerProcess, topic: str) -> None:
        with quiver.connect(shared_broker.address) as q:
            q.schedules.add("@daily", topic, "x", name=topic)
            with pytest.raises(ScheduleExists):
                q.schedules.add("@daily", topic, "x", name=topic)
            with pytest.raises(TopicNotFound):
                q.schedules.add("@daily", "no-such-topic", "x")
            with pytest.raises(InvalidRequest, match="time zone"):
                q.schedules.add("@daily", topic, "x", timezone="Mars/Olympus")
            with pytest.raises(InvalidRequest, match="bad hour"):
                q.schedules.add("0 25 * * *", topic, "x")
            with pytest.raises(TypeError, match="no 'colour'"):
                q.schedules.alter(topic, colour="red")

    async def test_the_asynchronous_twin(self, shared_broker: BrokerProcess, topic: str) -> None:
        async with quiver.connect_async(shared_broker.address) as q:
            added = await q.schedules.add("@yearly", topic, b"x")
            assert added.name.startswith("t-")
            assert added in await q.schedules.list()
            await q.schedules.run(added.name)
            await q.schedules.remove(added.name)
        assert [m.value for m in messages(shared_broker, topic)] == [b"x"]


class TestHttp:
    def test_from_add_to_remove(self, shared_broker: BrokerProcess, topic: str) -> None:
        status, added = shared_broker.request(
            "POST",
            "/schedules",
            {
                "name": topic,
                "cron": "0 3 * * *",
                "timezone": "Europe/Berlin",
                "topic": topic,
                "value": {"a": 1},
                "key_base64": "AP8=",
                "headers": {"h": "x"},
                "priority": "low",
            },
        )
        assert status == 201, added
        assert added["next_run"].endswith(("T01:00:00.000Z", "T02:00:00.000Z"))
        assert {
            k: added[k] for k in ("name", "paused", "value", "key_base64", "headers", "priority", "last_run")
        } == {
            "name": topic,
            "paused": False,
            "value": '{"a": 1}',
            "key_base64": "AP8=",
            "headers": {"h": "x"},
            "priority": "low",
            "last_run": None,
        }
        status, shown = shared_broker.request("GET", f"/schedules/{topic}")
        assert (status, shown.pop("next_runs")[0]) == (200, added["next_run"])
        assert shown == added
        status, listed = shared_broker.request("GET", "/v1/schedules")
        assert status == 200
        assert added in listed["schedules"]
        status, ran = shared_broker.request("POST", f"/schedules/{topic}/run")
        assert (status, ran["fired_count"]) == (200, 1)
        [message] = messages(shared_broker, topic)
        assert (message.key, message.value, message.priority) == (b"\0\xff", b'{"a": 1}', "low")
        status, paused = shared_broker.request("PATCH", f"/schedules/{topic}", {"paused": True, "value": None})
        assert (status, paused["paused"], paused["next_run"], paused["value"]) == (200, True, None, '{"a": 1}')
        status, changed = shared_broker.request("PATCH", f"/schedules/{topic}", {"tombstone": True, "headers": {}})
        assert (status, changed["tombstone"], changed["value"], "headers" in changed) == (200, True, None, False)
        assert shared_broker.request("DELETE", f"/schedules/{topic}") == (200, {"name": topic, "deleted": True})
        assert shared_broker.request("DELETE", f"/schedules/{topic}")[0] == 404

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            ({}, 400, "invalid_request"),
            ({"cron": "@daily", "topic": "TOPIC"}, 400, "invalid_request"),
            ({"cron": "* *", "topic": "TOPIC", "value": "x"}, 400, "invalid_request"),
            ({"cron": "@daily", "topic": "TOPIC", "value": "x", "timezone": "x"}, 400, "invalid_request"),
            ({"cron": "@daily", "topic": "TOPIC", "value": "x", "name": "a b"}, 400, "invalid_name"),
            ({"cron": "@daily", "topic": "TOPIC", "value": "x", "priority": "urgent"}, 400, "invalid_request"),
            ({"cron": "@daily", "topic": "no-such-topic", "value": "x"}, 404, "topic_not_found"),
            ({"cron": 5, "topic": "TOPIC", "value": "x"}, 400, "invalid_request"),
        ],
    )
    def test_what_is_refused(
        self, shared_broker: BrokerProcess, topic: str, body: dict[str, object], status: int, code: str
    ) -> None:
        body = body | ({"topic": topic} if body.get("topic") == "TOPIC" else {})
        found, answer = shared_broker.request("POST", "/schedules", body)
        assert (found, answer["code"]) == (status, code), answer

    @pytest.mark.parametrize(
        ("method", "path"),
        [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/run")],
    )
    def test_one_that_is_not_there(self, shared_broker: BrokerProcess, method: str, path: str) -> None:
        status, answer = shared_broker.request(method, f"/schedules/none{path}", {} if method != "GET" else None)
        assert (status, answer["code"]) == (404, "schedule_not_found")

    def test_pages(self, shared_broker: BrokerProcess, topic: str) -> None:
        for _ in range(3):
            shared_broker.request("POST", "/schedules", {"cron": "@yearly", "topic": topic, "value": "x"})
        _, everything = shared_broker.request("GET", "/schedules")
        found, skip = [], 0
        while skip is not None:
            _, page = shared_broker.request("GET", f"/schedules?limit=2&skip={skip}")
            assert len(page["schedules"]) <= 2
            found += page["schedules"]
            skip = page.get("next_skip")
        assert found == everything["schedules"]


class TestCommandLine:
    def test_from_add_to_remove(self, shared_broker: BrokerProcess, topic: str) -> None:
        cli = Cli(shared_broker.address)
        options = ["--name", topic, "--key", "k", "--header", "a=b", "--priority", "critical", "-o", "json"]
        added = json.loads(cli("schedule", "add", "*/5 * * * *", topic, "hello", *options).stdout)
        assert (added["name"], added["value"], added["key"], added["headers"], added["priority"]) == (
            topic,
            "hello",
            "k",
            {"a": "b"},
            "critical",
        )
        listed = cli("schedule", "list").stdout.decode()
        [line] = [line for line in listed.splitlines() if line.startswith(topic)]
        assert added["next_run"] in line
        assert "NEXT RUN" in listed.splitlines()[0]
        assert "LAST RUN" in listed.splitlines()[0]
        ran = json.loads(cli("schedule", "run", topic, "-o", "json").stdout)
        assert ran["last_run"] is not None
        assert [m.value for m in messages(shared_broker, topic)] == [b"hello"]
        cli("schedule", "pause", topic)
        assert json.loads(cli("schedule", "describe", topic, "-o", "json").stdout)["paused"] is True
        altered = json.loads(cli("schedule", "alter", topic, "--timezone", "Asia/Tokyo", "-o", "json").stdout)
        assert (altered["timezone"], altered["paused"], altered["cron"]) == ("Asia/Tokyo", True, "*/5 * * * *")
        [resumed] = json.loads(cli("schedule", "resume", topic, "-o", "json").stdout)
        assert resumed["next_run"] is not None
        cli("schedule", "remove", topic)
        missing = cli("schedule", "describe", topic, fails=True)
        assert missing.returncode == 1
        assert b"there is no schedule" in missing.stderr

    def test_what_is_refused(self, shared_broker: BrokerProcess, topic: str) -> None:
        cli = Cli(shared_broker.address)
        assert b"bad minute" in cli("schedule", "add", "61 * * * *", topic, "x", fails=True).stderr
        assert b"time zone" in cli("schedule", "add", "@daily", topic, "x", "--timezone", "Mars", fails=True).stderr
        assert b"nothing to change" in cli("schedule", "alter", "x", fails=True).stderr


def test_the_examples_of_the_documents(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[3] / "docs" / "schedules.md").read_text()
    cli = Cli(broker.address)
    with quiver.connect(broker.address) as q:
        for topic in ("reports", "jobs"):
            q.topics.create(topic)
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            for line in block.splitlines():
                cli(*shlex.split(line, comments=True)[1:])
        [example] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        exec(example, {"q": q})
        assert q.schedules.get("usage").is_paused
    assert "backup" in capsys.readouterr().out


def test_a_deleted_topic_is_shown_and_the_schedule_goes_on(shared_broker: BrokerProcess, topic: str) -> None:
    with quiver.connect(shared_broker.address) as q:
        q.schedules.add("@every 100ms", topic, "x", name=topic)
        arrived(shared_broker, topic, 1)
        q.topics.delete(topic)
        wait_until(lambda: "no topic" in q.schedules.get(topic).error, SECONDS, "the error is shown")
        with pytest.raises(TopicNotFound):
            q.schedules.run(topic)
        q.topics.create(topic)
        arrived(shared_broker, topic, 2)
        assert q.schedules.get(topic).error == ""
        q.schedules.remove(topic)
