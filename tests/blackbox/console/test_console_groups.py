"""Groups in the console: lag, resets with a preview, what a queue group holds, dead letters."""

from playwright.sync_api import expect

import quiver
from blackbox.console.console_page import ConsolePage


def receive(console: ConsolePage, topic: str, group: str, **body: object) -> list[dict]:
    return console.broker.request("POST", f"/topics/{topic}/receive", {"group": group, **body})[1]["messages"]


def reject_all(console: ConsolePage, topic: str, reasons: list[str]) -> None:
    for message, reason in zip(receive(console, topic, "workers", max_messages=100), reasons, strict=True):
        console.broker.request(
            "POST", "/messages/reject", {"receipt_handle": message["receipt_handle"], "reason": reason}
        )


def test_a_stream_group_is_reset_after_a_preview(console: ConsolePage) -> None:
    topic = console.topic("read", *map(str, range(20)))
    with quiver.connect(console.broker.address) as q, q.stream(topic, group="billing", start="earliest") as messages:
        for message in messages:
            if message.offset == 11:
                break
    console.open("groups")
    console.tab.get_by_role("link", name="billing", exact=True).click()
    expect(console.tab.locator(".tile", has_text="Lag").first).to_contain_text("8")
    console.button("Reset").click()
    expect(console.dialog.locator("tbody tr")).to_contain_text("-12")
    console.dialog.locator("select").nth(1).select_option("offset")
    console.dialog.get_by_label("Where").fill("5")
    expect(console.dialog.locator("tbody tr")).to_contain_text("-7")
    expect(console.dialog.locator("code").first).to_have_text("quiver group reset billing --topic read --to 5")
    console.dialog.locator("select").nth(1).select_option("like")
    console.dialog.get_by_label("Where").fill("nobody")
    expect(console.dialog.locator(".preview")).to_contain_text("there is no group 'nobody'")
    console.dialog.locator("select").nth(1).select_option("offset")
    console.dialog.get_by_label("Where").fill("5")
    console.dialog.get_by_role("button", name="Move the group").click()
    expect(console.dialog).to_have_count(0)
    assert console.broker.request("GET", "/groups/billing/offsets")[1]["offsets"][topic] == {"0": 5}
    console.problems = [text for text in console.problems if "404" not in text]
    expect(console.tab.locator(".tile", has_text="Lag").first).to_contain_text("15")


def test_a_group_is_deleted_by_typing_its_name(console: ConsolePage) -> None:
    topic = console.topic("left", "1")
    with quiver.connect(console.broker.address) as q, q.stream(topic, group="leavers", start="earliest") as messages:
        next(iter(messages))
    console.open("groups/leavers")
    console.button("Delete").click()
    console.dialog.get_by_label("Type leavers").fill("leavers")
    console.dialog.get_by_role("button", name="Delete the group").click()
    expect(console.title).to_have_text("Groups")
    assert console.broker.request("GET", "/groups/leavers")[0] == 404


def test_a_queue_group_shows_who_holds_what(console: ConsolePage) -> None:
    messages = [{"value": str(n), "key": "one", "priority": ["high", "low"][n % 2]} for n in range(6)]
    topic = console.topic("queued", *messages)
    receive(console, topic, "packers", consumer="packer-1", max_messages=1, ordering="key", visibility="10m")
    console.open("groups/packers")
    expect(console.tab.locator("main")).to_contain_text("packer-1")
    expect(console.tab.locator(".tile", has_text="Leased")).to_contain_text("1")
    blocked = console.tab.locator("section", has_text="Blocked keys")
    expect(blocked).to_contain_text("one")
    blocked.get_by_role("button", name="Release").click()
    console.dialog.get_by_role("button", name="Release").click()
    expect(console.tab.locator(".tile", has_text="Leased")).to_contain_text("0")


def test_a_lease_is_released_and_the_group_paused(console: ConsolePage) -> None:
    topic = console.topic("held", "1", "2")
    receive(console, topic, "holders", consumer="holder-1", max_messages=1, visibility="10m")
    console.open("groups/holders")
    expect(console.tab.locator(".tile", has_text="Leased")).to_contain_text("1")
    console.tab.get_by_label("Do something with 0:0").select_option("Release")
    console.dialog.get_by_role("button", name="Release").click()
    expect(console.tab.locator("main")).to_contain_text("Nobody holds a message")
    console.button("Pause").click()
    expect(console.dialog.locator(".preview")).to_contain_text("2 ready messages would wait")
    console.dialog.get_by_role("button", name="Pause").click()
    expect(console.tab.locator(".head")).to_contain_text("paused")
    assert receive(console, topic, "holders", max_messages=1) == []
    console.button("Resume").click()
    console.dialog.get_by_role("button", name="Resume").click()
    expect(console.button("Pause")).to_be_visible()
    assert len(receive(console, topic, "holders", max_messages=2)) == 2


def test_chosen_dead_letters_go_back(console: ConsolePage) -> None:
    topic = console.topic("dies", *map(str, range(5)))
    reject_all(console, topic, ["timeout", "timeout", "<b>bad</b>", "bad", "bad"])
    console.open("dead-letters")
    console.tab.get_by_role("link", name=topic, exact=True).click()
    expect(console.rows("section:last-of-type")).to_have_count(5)
    expect(console.tab.locator("main")).to_contain_text("<b>bad</b>")
    for box in console.tab.get_by_label("Choose 0:").all()[:2]:
        box.check()
    console.button("Redrive 2 chosen").click()
    console.dialog.get_by_role("button", name="Continue").click()
    expect(console.dialog.locator(".preview")).to_contain_text("2 dead letters would go to")
    console.dialog.get_by_role("button", name="Redrive", exact=True).click()
    expect(console.tab.locator(".head")).to_contain_text("3 dead letters")
    assert console.broker.request("GET", f"/topics/{topic}")[1]["total_messages"] == 7


def test_matching_dead_letters_are_purged(console: ConsolePage) -> None:
    topic = console.topic("rots", *map(str, range(4)))
    reject_all(console, topic, ["stale", "fresh", "stale", "stale"])
    console.open(f"topics/{topic}/dead-letters")
    console.tab.get_by_label("Contains").fill("stale")
    console.button("Filter").click()
    expect(console.rows("section:last-of-type")).to_have_count(3)
    assert "contains=stale" in console.address
    console.button("Purge matching").click()
    expect(console.dialog.locator(".preview")).to_contain_text("3 dead letters would be removed permanently")
    console.dialog.get_by_label(f"Type {topic}").fill(topic)
    console.dialog.get_by_role("button", name="Remove permanently").click()
    expect(console.tab.locator(".head")).to_contain_text("1 dead letter")
