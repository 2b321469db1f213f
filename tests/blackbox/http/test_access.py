"""Web pages of others must not reach the broker through a visitor's browser; and what the log says of access."""

import http.client
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from blackbox.processes.broker_process import BrokerProcess, wait_until


def call(
    broker: BrokerProcess, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """A request with exactly these headers beside the length of its body."""
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=20)
    data = b"" if body is None else json.dumps(body).encode()
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in (headers or {}).items():
        connection.putheader(name, value.replace("PORT", str(broker.http_port)))
    connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data)
    try:
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "host", ["127.0.0.1:PORT", "127.0.0.1", "localhost:PORT", "LocalHost.", "[::1]:PORT", "192.168.0.7:7480"]
)
def test_addresses_and_localhost_are_hosts(shared_broker: BrokerProcess, host: str) -> None:
    assert call(shared_broker, "GET", "/topics", headers={"Host": host})[0] == 200
    same = {"Host": host, "Origin": f"http://{host}", **JSON}
    assert call(shared_broker, "POST", "/topics/none/purge", {}, same)[0] == 404


@pytest.mark.parametrize("host", ["evil.example.com:PORT", "localhost.evil.com", "127.0.0.1.evil.com", "quiver", ""])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_name_that_was_made_to_lead_here_is_refused(shared_broker: BrokerProcess, host: str, method: str) -> None:
    status, answer = call(shared_broker, method, "/topics", {"name": "x"}, {"Host": host, **JSON})
    assert (status, answer["code"]) == (403, "host_not_allowed")
    assert "--allowed-host" in answer["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example.com", **FORM},
        {"Origin": "http://evil.example.com", **JSON},
        {"Origin": "null", **JSON},
        {"Origin": "http://127.0.0.1:1", **JSON},
        {"Origin": "http://localhost:PORT", **JSON},
        {"Origin": "http://127.0.0.1:PORT", **FORM},
        {"Origin": "http://127.0.0.1:PORT", "Content-Type": "text/plain;charset=UTF-8"},
        {"Sec-Fetch-Site": "cross-site", **JSON},
    ],
    ids=str,
)
def test_pages_of_others_and_forms_of_pages_change_nothing(
    shared_broker: BrokerProcess, headers: dict[str, str]
) -> None:
    host = {"Host": "127.0.0.1:PORT"}
    for method, path in (("POST", "/topics"), ("PATCH", "/topics/none"), ("DELETE", "/topics/none")):
        status, answer = call(shared_broker, method, path, {"name": "made-by-a-page"}, {**host, **headers})
        assert (status, answer["code"]) == (403, "foreign_origin")
    assert call(shared_broker, "GET", "/topics", headers={**host, **headers})[0] == 200
    assert "made-by-a-page" not in call(shared_broker, "GET", "/topics", headers=host)[1]["topics"]


def test_a_form_type_without_origin_is_what_curl_sends(shared_broker: BrokerProcess) -> None:
    status, _ = call(shared_broker, "POST", "/topics", {"name": "curl"}, {"Host": "localhost", **FORM})
    assert status == 201


def test_names_are_allowed_by_configuration_and_a_wide_address_is_warned_of(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    flags = ("--host", "0.0.0.0", "--advertise", "broker.example.com", "--allowed-host", "quiver", "--allowed-host")
    broker = start_broker(*flags, "Other.Example")
    for host in ("broker.example.com", "quiver:PORT", "other.example"):
        assert call(broker, "GET", "/topics", headers={"Host": host})[0] == 200
    assert call(broker, "GET", "/topics", headers={"Host": "third.example"})[0] == 403
    assert "without authentication" in broker.log_text


def test_names_come_from_the_environment_too_and_loopback_is_not_warned_of(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker(environment={"QUIVER_ALLOWED_HOST": "a.example, b.example"})
    assert call(broker, "GET", "/topics", headers={"Host": "b.example"})[0] == 200
    assert "without authentication" not in broker.log_text


def test_requests_are_logged_one_by_one_only_if_asked_for(start_broker: Callable[..., BrokerProcess]) -> None:
    quiet = start_broker()
    assert quiet.request("GET", "/topics/none")[0] == 404
    quiet.terminate()
    assert "/topics/none" not in quiet.log_text
    chatty = start_broker("--log-requests")
    chatty.request("GET", "/topics/none")
    line = re.compile(r"GET /topics/none 404 \d+\.\d+ ms")
    wait_until(lambda: line.search(chatty.log_text), 10, "a line with method, path, status and time")
