"""Delays, schedules and transactions in the console."""

from playwright.sync_api import expect

from blackbox.console.console_page import ConsolePage


def test_delayed_messages_are_moved_delivered_and_cancelled(console: ConsolePage) -> None:
    topic = console.topic("later", *({"value": str(n), "delay": f"{n + 1}h"} for n in range(4)))
    console.open("delayed")
    expect(console.rows().filter(has_text=topic)).to_contain_text("4")
    console.tab.get_by_role("link", name=topic).click()
    expect(console.rows()).to_have_count(4)
    console.tab.get_by_label("Choose 0:0").check()
    console.button("Move").click()
    console.dialog.get_by_label("When").fill("9h")
    expect(console.dialog.locator("code").first).to_have_text(f"quiver delayed move {topic} 0:0 --to 9h")
    console.dialog.get_by_role("button", name="Move").click()
    expect(console.rows().last).to_contain_text("0:0")
    console.tab.get_by_label("Choose 0:3").check()
    console.button("Deliver now").click()
    expect(console.dialog.locator(".preview")).to_contain_text("1 message would enter the topic now")
    console.dialog.get_by_role("button", name="Deliver now").click()
    expect(console.rows()).to_have_count(3)
    console.tab.get_by_label("Choose 0:1").check()
    console.button("Cancel").click()
    expect(console.dialog.locator(".preview")).to_contain_text("1 message would never enter the topic")
    console.dialog.get_by_role("button", name="Cancel them").click()
    expect(console.rows()).to_have_count(2)
    assert console.broker.request("GET", f"/topics/{topic}/delayed")[1]["count"] == 2
    assert console.broker.request("GET", f"/topics/{topic}")[1]["total_messages"] == 1


def test_a_schedule_is_added_paused_run_and_removed(console: ConsolePage) -> None:
    topic = console.topic("ticks")
    console.open("schedules")
    console.button("Add schedule").click()
    console.dialog.get_by_label("Name").fill("nightly")
    console.dialog.get_by_label("When").fill("30 2 * * mon-fri")
    expect(console.dialog).to_contain_text("at 02:30 on Monday to Friday")
    console.dialog.get_by_label("Topic").fill(topic)
    console.dialog.get_by_label("Value").fill('{"kind": "nightly"}')
    console.dialog.get_by_role("button", name="Add").click()
    expect(console.rows()).to_contain_text("nightly")
    console.button("Times", exact=True).click()
    expect(console.dialog.locator("li")).to_have_count(5)
    console.dialog.get_by_role("button", name="Close").click()
    console.button("Pause", exact=True).click()
    console.dialog.get_by_role("button", name="Pause").click()
    expect(console.rows()).to_contain_text("paused")
    console.button("Run", exact=True).click()
    console.dialog.get_by_role("button", name="Run").click()
    expect(console.dialog).to_have_count(0)
    assert console.broker.request("GET", f"/topics/{topic}")[1]["total_messages"] == 1
    console.button("Remove", exact=True).click()
    console.dialog.get_by_role("button", name="Remove").click()
    expect(console.tab.locator("main")).to_contain_text("No schedules yet")


def test_an_open_transaction_is_aborted(console: ConsolePage) -> None:
    topic = console.topic("books")
    producer = console.broker.request("POST", "/producers/init", {"transactional_id": "bookkeeper"})[1]
    console.broker.request("POST", "/transactions/publish", {**producer, "topic": topic, "value": "1"})
    console.open("transactions")
    expect(console.rows().filter(has_text="bookkeeper").first).to_contain_text("open")
    console.button("Abort").click()
    console.dialog.get_by_role("button", name="Abort").click()
    expect(console.tab.locator("main")).to_contain_text("No open transactions")
    ended = console.rows().filter(has_text="bookkeeper")
    expect(ended).to_contain_text("aborted")
    console.tab.get_by_label("Last transaction").select_option("committed")
    expect(ended).to_have_count(0)
    assert console.address == "transactions?ended=committed"
    assert console.broker.request("GET", "/transactions")[1]["count"] == 0
