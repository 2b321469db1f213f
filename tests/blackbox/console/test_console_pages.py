"""Every page opens by its address, says what it is, and shows the commands that do the same."""

import re
import tarfile

import pytest
from playwright.sync_api import expect

from blackbox.console.console_page import ConsolePage
from blackbox.processes.broker_process import BrokerProcess

PAGES = {
    "": ("Overview", "quiver top"),
    "topics": ("Topics", "quiver topic list"),
    "topics/seen": ("seen", "quiver topic describe seen"),
    "topics/seen/settings": ("seen", "quiver topic describe seen"),
    "topics/seen/messages": ("seen", "quiver consume seen"),
    "topics/seen/messages/0/1": ("0:1", "quiver consume seen --partition 0 --from 1"),
    "topics/seen/dead-letters": ("seen", "quiver dlq list seen"),
    "topics/seen/delayed": ("seen", "quiver delayed list seen"),
    "publish?topic=seen": ("Publish", "quiver produce seen"),
    "groups": ("Groups", "quiver group list"),
    "groups/readers": ("readers", "quiver group describe readers"),
    "groups/workers": ("workers", "quiver group describe workers"),
    "dead-letters": ("Dead letters", "quiver dlq list"),
    "delayed": ("Delayed", "quiver delayed list"),
    "schedules": ("Schedules", "quiver schedule list"),
    "transactions": ("Transactions", "quiver txn list"),
    "cluster": ("Cluster", "quiver cluster status"),
    "system": ("System", "quiver doctor"),
}


@pytest.fixture(scope="module", autouse=True)
def seen(shared_broker: BrokerProcess) -> None:
    shared_broker.request("POST", "/topics", {"name": "seen", "partitions": 1})
    shared_broker.request("POST", "/topics/seen/messages", {"messages": [{"value": {"n": n}} for n in range(3)]})
    shared_broker.request("POST", "/groups/readers/join", {"client_id": "c", "topics": ["seen"]})
    shared_broker.request("POST", "/topics/seen/receive", {"group": "workers", "max_messages": 1})


def test_every_page_opens_by_its_address(console: ConsolePage) -> None:
    for place, (title, command) in PAGES.items():
        console.open(place)
        expect(console.title).to_have_text(title)
        expect(console.commands.first).to_contain_text(command)
        expect(console.commands.last).to_contain_text("curl ")
        assert console.tab.locator("main .failed").count() == 0, place
        assert console.tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{place} is too wide"


def test_every_page_fits_a_narrow_window(console: ConsolePage) -> None:
    console.tab.set_viewport_size({"width": 800, "height": 700})
    for place in PAGES:
        console.open(place)
        assert console.tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{place} is too wide"


def test_a_page_that_does_not_exist_says_so(console: ConsolePage) -> None:
    console.open("groups")
    console.tab.goto(f"{console.broker.http}/console#/nowhere/at/all")
    expect(console.tab.get_by_role("alert")).to_contain_text("no such page")
    expect(console.tab.locator("[aria-current=page]")).to_have_count(0)
    expect(console.commands).to_have_count(0)


def test_a_topic_that_does_not_exist_says_so(console: ConsolePage) -> None:
    console.tab.goto(f"{console.broker.http}/console#/topics/absent")
    expect(console.tab.get_by_role("alert")).to_contain_text("there is no topic 'absent'")
    console.problems = [text for text in console.problems if "404" not in text]


def test_dark_and_light_follow_the_system_and_the_button(console: ConsolePage) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    console.open("topics")
    light = console.tab.evaluate(background)
    console.tab.emulate_media(color_scheme="dark")
    dark = console.tab.evaluate(background)
    assert light != dark
    console.tab.get_by_role("button", name="Theme").click()
    assert console.tab.evaluate(background) == light
    console.open("topics")
    assert console.tab.evaluate(background) == light


def test_the_console_works_below_v1_too(console: ConsolePage) -> None:
    console.tab.goto(f"{console.broker.http}/v1/console#/topics")
    expect(console.tab.get_by_role("link", name="seen", exact=True)).to_be_visible()
    assert any("/v1/topics" in url for url in console.requests)


def test_make_run_prints_the_address(shared_broker: BrokerProcess) -> None:
    assert re.search(rf"^  console {re.escape(shared_broker.http)}/console$", shared_broker.log_text, re.MULTILINE)


def test_numbers_are_written_as_people_read_them(console: ConsolePage) -> None:
    console.open("topics")
    shown = console.tab.evaluate("""async () => {
        const script = document.querySelector("script[type=module]").src;
        const { bytes, duration, short } = await import(script.replace("app.js", "lib/format.js"));
        return [bytes(512000), bytes(1536), bytes(100), duration(0.1), duration(0.0125), duration(30), duration(3661),
                short(100.4), short(2500000), short(12.5), short(20000)];
    }""")
    expected = "500 KiB|1.5 KiB|100 B|100 ms|12.5 ms|30 s|1 h 1 m|100|2.5 M|12.5|20 k"
    assert shown == expected.split("|")


def test_a_support_bundle_has_no_content_of_messages(console: ConsolePage) -> None:
    topic = console.topic(
        "bundled", {"value": "hidden-value", "key": "hidden-key", "headers": {"a": "hidden-header"}}
    )
    console.open("system")
    with console.tab.expect_download() as download:
        console.tab.get_by_role("link", name="Support bundle").click()
    with tarfile.open(download.value.path()) as archive:
        files = {name: archive.extractfile(name) for name in archive.getnames()}
        texts = {name: file.read().decode() for name, file in files.items() if file is not None}
    assert topic in texts["quiver-support/topics.json"]
    assert "quiver_published_messages_total" in texts["quiver-support/metrics.txt"]
    assert "left out" not in texts["quiver-support/README.txt"]
    assert not [name for name, text in texts.items() if "hidden-" in text]
