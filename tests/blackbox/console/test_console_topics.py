"""Topics in the console: created, searched, changed after a look at the difference, purged, deleted."""

from playwright.sync_api import expect

from blackbox.console.console_page import ConsolePage


def test_a_topic_is_created_and_found(console: ConsolePage) -> None:
    console.open("topics")
    console.button("Create topic").click()
    console.dialog.get_by_label("Name").fill("made-here")
    console.dialog.get_by_label("Partitions").fill("4")
    console.dialog.get_by_label("Retention").fill("3h")
    console.dialog.get_by_role("button", name="Create").click()
    expect(console.title).to_have_text("made-here")
    assert console.broker.request("GET", "/topics/made-here")[1]["config"]["retention"] == "3h"
    console.open("topics")
    console.tab.get_by_label("Search topics").fill("made-h")
    expect(console.rows()).to_have_count(1)
    assert console.address == "topics?search=made-h"
    console.tab.reload()
    expect(console.rows()).to_have_count(1)


def test_a_refused_name_stays_in_the_dialog(console: ConsolePage) -> None:
    console.open("topics")
    console.button("Create topic").click()
    console.dialog.get_by_label("Name").fill("not a name!")
    console.dialog.get_by_role("button", name="Create").click()
    expect(console.dialog.get_by_role("alert")).to_contain_text("name")
    console.problems = [text for text in console.problems if "400" not in text]


def test_settings_are_cloned(console: ConsolePage) -> None:
    console.topic("model", retention="5h", max_attempts=9)
    console.open("topics/model")
    console.button("Clone").click()
    console.dialog.get_by_label("Name").fill("copy")
    console.dialog.get_by_role("button", name="Create").click()
    expect(console.title).to_have_text("copy")
    config = console.broker.request("GET", "/topics/copy")[1]["config"]
    assert (config["retention"], config["max_attempts"]) == ("5h", 9)


def test_settings_change_after_a_look_at_the_difference(console: ConsolePage) -> None:
    console.topic("altered", retention="7d")
    console.open("topics/altered/settings")
    expect(console.button("Review changes")).to_be_disabled()
    console.tab.locator("input[name=retention]").fill("24h")
    console.tab.locator("input[name=max_attempts]").fill("6")
    expect(console.commands.first).to_have_text("quiver topic alter altered --retention 24h --max-attempts 6")
    console.button("Review 2 changes").click()
    expect(console.dialog.locator("del")).to_have_text(["7d", "4"])
    expect(console.dialog.locator("ins")).to_have_text(["24h", "6"])
    console.dialog.get_by_role("button", name="Change").click()
    expect(console.dialog).to_have_count(0)
    expect(console.tab.locator("input[name=retention]")).to_have_value("1d")
    assert console.broker.request("GET", "/topics/altered")[1]["config"]["max_attempts"] == 6


def test_partitions_are_added(console: ConsolePage) -> None:
    console.topic("grows", partitions=2)
    console.open("topics/grows")
    console.button("Add partitions").click()
    console.dialog.get_by_label("Partitions").fill("5")
    console.dialog.get_by_role("button", name="Add").click()
    expect(console.tab.locator(".tile", has_text="Partitions")).to_contain_text("5")
    assert console.broker.request("GET", "/topics/grows")[1]["partitions"] == 5


def test_purging_asks_again_with_a_count(console: ConsolePage) -> None:
    console.topic("purged", *map(str, range(12)))
    console.open("topics/purged")
    console.button("Purge").click()
    expect(console.dialog.locator(".preview")).to_contain_text("12 messages")
    action = console.dialog.get_by_role("button", name="Remove all messages")
    expect(action).to_be_disabled()
    console.dialog.get_by_label("Type purged").fill("purge")
    expect(action).to_be_disabled()
    console.dialog.get_by_label("Type purged").fill("purged")
    action.click()
    expect(console.dialog).to_have_count(0)
    assert console.broker.request("GET", "/topics/purged")[1]["total_messages"] == 0


def test_a_topic_is_deleted_by_typing_its_name(console: ConsolePage) -> None:
    console.topic("doomed", "1")
    console.open("topics/doomed")
    console.button("Delete").click()
    expect(console.dialog.locator(".preview")).to_contain_text("1 message ")
    console.dialog.get_by_label("Type doomed").fill("doomed")
    console.dialog.get_by_role("button", name="Delete the topic").click()
    expect(console.title).to_have_text("Topics")
    assert console.broker.request("GET", "/topics/doomed")[0] == 404


def test_a_topic_that_is_deleted_while_it_is_looked_at(console: ConsolePage) -> None:
    console.topic("vanishing", "1")
    console.open("topics/vanishing")
    expect(console.rows().first).to_be_visible()
    console.broker.request("DELETE", "/topics/vanishing")
    expect(console.tab.get_by_role("alert")).to_contain_text("there is no topic 'vanishing'")
    console.tab.get_by_role("link", name="All topics").click()
    expect(console.title).to_have_text("Topics")
    console.problems = [text for text in console.problems if "404" not in text]


def test_a_thousand_topics_are_drawn_in_part(console: ConsolePage) -> None:
    for number in range(520):
        console.broker.request("POST", "/topics", {"name": f"many-{number:04}", "partitions": 1})
    console.open("topics?search=many-")
    expect(console.tab.locator(".head")).to_contain_text("520 topics")
    assert console.rows().count() < 120
    console.tab.mouse.wheel(0, 100_000)
    expect(console.tab.get_by_role("link", name="many-0519", exact=True)).to_be_visible()
    assert console.rows().count() < 120
