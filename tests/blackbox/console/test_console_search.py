"""Search and the live tail in the console."""

from playwright.sync_api import expect

from blackbox.console.console_page import ConsolePage


def test_a_search_finds_shows_progress_and_has_an_address(console: ConsolePage) -> None:
    topic = console.topic(
        "searched", *({"value": {"n": n, "total": n * 10}, "key": f"k-{n % 3}"} for n in range(100))
    )
    console.open(f"topics/{topic}/messages")
    console.press("/")
    console.tab.keyboard.type('value.total > 900 and key == "k-1"')
    console.press("Enter")
    expect(console.rows()).to_have_count(3)
    values = console.tab.locator("main tbody td:nth-child(5)").all_text_contents()
    assert [value.split(",")[0] for value in values] == ['{"n": 97', '{"n": 94', '{"n": 91']
    expect(console.tab.locator(".message-area")).to_contain_text("100 of 100 looked at")
    expect(console.commands.first).to_have_text(
        f"""quiver search {topic} 'value.total > 900 and key == "k-1"'""",
    )
    console.button("Save", exact=True).click()
    console.open(console.address)
    expect(console.rows()).to_have_count(3)
    console.button("Clear").click()
    expect(console.rows()).to_have_count(50)
    console.tab.locator(".saved").get_by_role("button", name="value.total", exact=False).first.click()
    expect(console.rows()).to_have_count(3)
    console.tab.get_by_label("Forget value.total").click()
    expect(console.tab.locator(".chip")).to_have_count(0)


def test_a_search_that_stops_at_its_limit_goes_on(console: ConsolePage) -> None:
    topic = console.topic("plenty", *({"value": {"n": n}} for n in range(620)))
    console.open(f"topics/{topic}/messages?where=value.n+>=+0")
    expect(console.tab.locator(".head")).to_contain_text("500 matches")
    console.button("Search on").click()
    expect(console.tab.locator(".head")).to_contain_text("620 matches")


def test_an_expression_that_is_wrong_says_why(console: ConsolePage) -> None:
    topic = console.topic("misread", "1")
    console.open(f"topics/{topic}/messages?where=__import__('os')")
    expect(console.tab.get_by_role("alert")).to_be_visible()
    console.open(f"topics/{topic}/messages?where=no+such+thing")
    expect(console.tab.get_by_role("alert")).to_be_visible()
    console.problems = [text for text in console.problems if "400" not in text]


def test_messages_of_a_key(console: ConsolePage) -> None:
    topic = console.topic("keyed", *({"value": str(n), "key": f"k-{n % 2}"} for n in range(6)))
    console.open(f"topics/{topic}/messages/0/0")
    console.tab.get_by_role("link", name="Messages of this key").click()
    expect(console.rows()).to_have_count(3)


def test_a_live_tail_shows_what_comes_and_what_it_left_out(console: ConsolePage) -> None:
    topic = console.topic("followed", "before")
    console.open(f"topics/{topic}/messages")
    with console.tab.expect_request(lambda request: "/tail" in request.url):
        console.button("Live tail").click()
    with console.tab.expect_response(lambda response: "/tail" in response.url):
        console.tab.reload()
    expect(console.tab.locator("main")).to_contain_text("Waiting for messages")
    console.broker.request("POST", f"/topics/{topic}/messages", {"messages": [{"value": "<i>now</i>"}]})
    expect(console.rows()).to_have_count(1)
    expect(console.rows()).to_contain_text("<i>now</i>")
    console.broker.request("POST", f"/topics/{topic}/messages", {"messages": [{"value": "more"}] * 2000})
    expect(console.tab.locator(".head")).to_contain_text("left out")
    console.button("Stop the tail").click()
    expect(console.rows()).to_have_count(50)
