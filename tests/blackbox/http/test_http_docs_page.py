"""The documents page in a real browser, with every address but the broker's out of reach."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright

from blackbox.processes.broker_process import BrokerProcess

CHROMIUM = shutil.which("chromium")


@pytest.fixture
def page(shared_broker: BrokerProcess) -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page: Any = browser.new_page()
        page.problems = []
        page.elsewhere = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and page.problems.append(message.text))
        page.route(
            lambda url: not url.startswith(shared_broker.http), lambda route: page.elsewhere.append(route.abort())
        )
        yield page
        browser.close()


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_the_page_lists_the_routes_and_tries_them(shared_broker: BrokerProcess, page: Any, prefix: str) -> None:
    topic = "docs" + prefix.replace("/", "-")
    shared_broker.request("POST", "/topics", {"name": topic, "partitions": 1})
    page.goto(f"{shared_broker.http}{prefix}/docs")
    operation = page.locator("#post_topics_topic_messages")
    operation.locator("summary").click()
    operation.locator("input").first.fill(topic)
    operation.get_by_role("button", name="Send").click()
    expect(operation.locator(".answer")).to_contain_text('"offset": 0')
    expect(operation.get_by_label("Command")).to_contain_text(f"/topics/{topic}/messages")
    described = shared_broker.request("GET", "/openapi.json")[1]["paths"]
    expect(page.locator("nav a")).to_have_count(sum(len(methods) for methods in described.values()))
    assert (page.problems, page.elsewhere) == ([], [])


def test_schemas_are_shown_and_routes_filtered(shared_broker: BrokerProcess, page: Any) -> None:
    page.goto(f"{shared_broker.http}/docs#schema-MessageToPublish")
    expect(page.locator("#schema-MessageToPublish td code", has_text="deliverAt")).to_be_visible()
    page.get_by_label("Filter routes").fill("readyz")
    expect(page.locator("nav a:visible")).to_have_count(1)
