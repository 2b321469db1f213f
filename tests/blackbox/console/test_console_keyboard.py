"""The console without a mouse: pages by two keys, rows, search, dialogs, and a focus that can be seen."""

from playwright.sync_api import expect

from blackbox.console.console_page import ConsolePage


def test_a_message_is_found_and_read_with_keys_only(console: ConsolePage) -> None:
    for name in ("alpha", "beta", "gamma"):
        console.topic(name, f"value of {name}")
    console.open("")
    console.press("g", "t")
    expect(console.title).to_have_text("Topics")
    console.press("/")
    console.tab.keyboard.type("bet")
    expect(console.rows()).to_have_count(1)
    console.press("Escape")
    expect(console.rows()).to_have_count(3)
    console.press("Escape", "j", "j")
    expect(console.tab.get_by_role("link", name="beta", exact=True)).to_be_focused()
    console.press("k", "j", "Enter")
    expect(console.title).to_have_text("beta")
    console.tab.get_by_role("link", name="Messages", exact=True).focus()
    console.press("Enter")
    expect(console.rows()).to_have_count(1)
    expect(console.rows()).to_contain_text("value of beta")
    console.press("j", "Enter")
    expect(console.tab.get_by_label("Value", exact=True)).to_have_text("value of beta")
    console.press("Escape")
    expect(console.rows()).to_have_count(1)
    console.press("Escape")
    expect(console.title).to_have_text("Topics")


def test_a_topic_is_created_with_keys_only(console: ConsolePage) -> None:
    console.open("topics")
    console.button("Create topic").focus()
    console.press("Enter")
    console.tab.keyboard.type("by-keys")
    console.press("Enter")
    expect(console.title).to_have_text("by-keys")


def test_escape_closes_a_dialog_and_the_focus_returns(console: ConsolePage) -> None:
    console.topic("kept", "1")
    console.open("topics/kept")
    button = console.button("Delete")
    button.focus()
    console.press("Enter")
    expect(console.dialog).to_be_visible()
    console.press("Escape")
    expect(console.dialog).to_have_count(0)
    expect(button).to_be_focused()
    expect(console.title).to_have_text("kept")


def test_every_key_is_listed(console: ConsolePage) -> None:
    console.open("topics")
    console.press("?")
    for name in ("Overview", "Topics", "Publish", "Groups", "Dead letters", "Delayed", "Schedules", "System"):
        expect(console.dialog).to_contain_text(name)
    console.press("Escape")
    expect(console.dialog).to_have_count(0)


def test_the_focus_can_be_seen_and_survives_a_refresh(console: ConsolePage) -> None:
    console.topic("watched", "1")
    console.open("topics?search=watched")
    row = console.tab.get_by_role("link", name="watched", exact=True)
    expect(row).to_be_visible()
    console.press("j")
    expect(row).to_be_focused()
    assert console.tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    console.broker.request("POST", "/topics/watched/messages", {"messages": [{"value": "2"}]})
    expect(console.rows().locator("td").nth(2)).to_have_text("2")
    expect(row).to_be_focused()
