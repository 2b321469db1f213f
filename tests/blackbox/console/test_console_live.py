"""The overview: live numbers over one stream for all tabs."""

import re

from playwright.sync_api import expect

from blackbox.console.console_page import ConsolePage


def streams(console: ConsolePage) -> int:
    return sum(url.endswith("/overview/stream") for url in console.requests)


def test_the_overview_follows_what_happens(console: ConsolePage) -> None:
    topic = console.topic("busy", *map(str, range(50)))
    console.open("")
    expect(console.tab.locator(".head")).to_contain_text("Ready")
    stored = console.tab.locator(".tile", has_text="Stored")
    expect(stored).to_contain_text(re.compile(r"\d+ topics"))
    seen = "performance.now()"
    console.tab.evaluate(seen)
    for _ in range(3):
        console.broker.request("POST", f"/topics/{topic}/messages", {"messages": [{"value": "x"}] * 1000})
    expect(console.tab.locator("main tbody")).to_contain_text(topic)
    expect(console.tab.locator("time-chart svg")).to_have_count(3)
    console.button("15m").click()
    expect(console.button("15m")).to_have_attribute("aria-pressed", "true")
    assert console.address == "?span=15m"


def test_tabs_share_one_stream_and_the_next_takes_over(console: ConsolePage) -> None:
    console.open("")
    expect(console.tab.locator(".head")).to_contain_text("Ready")
    other = console.new_tab()
    other.goto(f"{console.broker.http}/console#/")
    expect(other.locator(".head")).to_contain_text("Ready")
    third = console.new_tab()
    third.goto(f"{console.broker.http}/console#/system")
    expect(third.locator(".tile", has_text="Memory")).to_contain_text("MiB")
    assert streams(console) == 1
    console.tab.close()
    uptime = other.locator(".head .soft").inner_text()
    expect(other.locator(".head .soft")).not_to_have_text(uptime)
    with_two = streams(console)
    assert with_two == 2


def test_a_stopped_broker_is_noticed_and_comes_back(console: ConsolePage) -> None:
    console.open("")
    expect(console.tab.locator(".head")).to_contain_text("Ready")
    console.context.route("**/overview/stream", lambda route: route.abort())
    console.context.set_offline(True)
    console.context.set_offline(False)
    console.open("")
    expect(console.tab.get_by_role("alert")).to_contain_text("cannot be reached")
    console.context.unroute("**/overview/stream")
    expect(console.tab.get_by_role("alert")).to_have_count(0)
    expect(console.tab.locator(".head")).to_contain_text("Ready")
    console.problems = [text for text in console.problems if "Failed to load resource" not in text]
