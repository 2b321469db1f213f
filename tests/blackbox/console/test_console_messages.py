"""Messages in the console: newest first from any place, one message in every form, publishing, hostile payloads."""

import base64
import json
import subprocess

import msgspec
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from blackbox.console.console_page import ConsolePage

HOSTILE = {
    "script": "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
    "markup": '"><svg onload="document.title=\'owned\'"><style>*{display:none}</style>',
    "direction": "invoice \u202egnp.exe \u2066hidden\u2069",
    "template": "${location='https://example.com'} {{7*7}} javascript:alert(1)",
    "controls": "a\x00b\x07c\x1b[31mred\u2028line",
}


def offsets(console: ConsolePage) -> list[str]:
    return [text.strip() for text in console.tab.locator("main tbody td:nth-child(3)").all_text_contents()]


def test_messages_are_newest_first_over_all_partitions(console: ConsolePage) -> None:
    topic = console.topic("newest", partitions=3)
    for number in range(130):
        message = {"value": f"message {number}", "partition": number % 3}
        console.broker.request("POST", f"/topics/{topic}/messages", {"messages": [message]})
    stored = console.broker.request("GET", f"/topics/{topic}/messages?limit=200")[1]["messages"]
    appended = {message["value"]: message["appended_at"] for message in stored}
    console.open(f"topics/{topic}/messages")
    values = console.tab.locator("main tbody td:nth-child(5)")
    shown: list[str] = []
    for count in (50, 50, 30):
        expect(values).to_have_count(count)
        expect(values.first).not_to_have_text(shown[-50] if shown else "")
        shown += values.all_text_contents()
        if count == 50:
            console.button("Older").click()
    assert sorted(shown) == sorted(appended)
    assert [appended[value] for value in shown] == sorted(appended.values(), reverse=True)
    expect(console.button("Older")).to_have_count(0)
    address = console.address
    console.open(address)
    expect(values.last).to_have_text(shown[-1])


def test_messages_from_an_offset_and_before_a_time(console: ConsolePage) -> None:
    topic = console.topic("places", *map(str, range(20)))
    page = console.broker.request("GET", f"/topics/{topic}/partitions/0/messages?offset=19&limit=1")[1]
    console.broker.request("POST", f"/topics/{topic}/messages", {"messages": [{"value": "later"}]})
    console.open(f"topics/{topic}/messages")
    console.tab.get_by_label("Partition", exact=True).select_option("0")
    expect(console.commands.first).to_contain_text("--partition 0")
    console.tab.get_by_label("From offset downwards").fill("7")
    console.button("Go", exact=True).click()
    expect(console.rows()).to_have_count(8)
    assert offsets(console) == [str(number) for number in range(7, -1, -1)]
    later = console.broker.request("GET", f"/topics/{topic}/partitions/0/messages?offset=20&limit=1")[1]["messages"][
        0
    ]
    console.open(f"topics/{topic}/messages?until={later['appended_at']}")
    expected = 20 if page["messages"][0]["appended_at"] < later["appended_at"] else 0
    expect(console.rows()).to_have_count(expected)


def test_one_message_in_every_form(console: ConsolePage) -> None:
    value = {"id": 12345678901234567890, "list": [], "nested": {"a": [1, {"b": "c, {d}"}]}}
    topic = console.topic("forms", {"value": value, "key": "k-1", "headers": {"source": "web"}}, partitions=1)
    console.open(f"topics/{topic}/messages")
    console.tab.get_by_role("link", name="0", exact=True).click()
    expect(console.title).to_have_text("0:0")
    shown = console.tab.get_by_label("Value", exact=True)
    expect(shown).to_contain_text('"id": 12345678901234567890,')
    assert json.loads(shown.inner_text()) == value
    expect(console.tab.locator("main")).to_contain_text("source")
    console.button("HEX").click()
    expect(shown).to_contain_text("00000000  7b 22")
    assert console.address.endswith("as=hex")
    console.button("TEXT").click()
    expect(shown).to_contain_text('{"id": 12345678901234567890, "list": [], ')


def test_messagepack_is_decoded_and_a_message_is_copied(console: ConsolePage) -> None:
    value = {"sku": "A-1", "stock": [1, -2, 2**40, 2**63 + 1, 1.5, None, True], "raw": b"\xff\x00", "long": "x" * 300}
    data = base64.b64encode(msgspec.msgpack.encode(value)).decode()
    topic = console.topic("packed", {"value_base64": data, "key": 'k"1', "headers": {"source": "web"}})
    console.context.grant_permissions(["clipboard-read", "clipboard-write"])
    console.open(f"topics/{topic}/messages/0/0")
    shown = json.loads(console.tab.get_by_label("Value", exact=True).inner_text())
    assert shown == value | {"raw": {"base64": "/wA="}, "stock": [1, -2, 2**40, str(2**63 + 1), 1.5, None, True]}
    expect(console.tab.locator("section", has_text="Frame")).to_contain_text("offset 0")
    console.button("Python").click()
    expect(console.tab.locator("#notes")).to_contain_text("Copied as Python")
    program = console.tab.evaluate("navigator.clipboard.readText()").replace(
        'quiver.connect("127.0.0.1")', f'quiver.connect("{console.broker.address}")'
    )
    exec(compile(program, "copied", "exec"), {})
    console.button("curl").click()
    expect(console.tab.locator("#notes")).to_contain_text("Copied as curl")
    command = console.tab.evaluate("navigator.clipboard.readText()")
    subprocess.run(command, shell=True, check=True, capture_output=True, timeout=60)
    found = console.broker.request("GET", f"/topics/{topic}/partitions/0/messages?offset=0")[1]["messages"]
    fields = ("value_base64", "key", "headers")
    assert [[each.get(name) for name in fields] for each in found] == [[data, 'k"1', {"source": "web"}]] * 3


def test_bytes_that_are_not_text(console: ConsolePage) -> None:
    data = bytes(range(256))
    topic = console.topic("binary", {"value_base64": base64.b64encode(data).decode()})
    console.open(f"topics/{topic}/messages/0/0")
    shown = console.tab.get_by_label("Value", exact=True)
    expect(shown).to_contain_text("000000f0  f0 f1 f2")
    expect(console.button("JSON")).to_have_count(0)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_payloads_are_text(console: ConsolePage, name: str) -> None:
    text = HOSTILE[name]
    message = {"value": text, "key": text[:60], "headers": {"evil": text}}
    topic = console.topic(f"hostile-{name}", message)
    for place in ("messages", "messages/0/0"):
        console.open(f"topics/{topic}/{place}")
        expect(console.tab.locator("main")).to_contain_text(text[:8])
        assert console.tab.locator("main script, main img, main style").count() == 0
        assert "\u202e" not in console.tab.locator("main").inner_text()
        assert "owned" not in console.tab.title()
    console.open(f"publish?from={topic}/0/0")
    expect(console.tab.get_by_label("Value", exact=True)).to_have_value(text.replace("\r\n", "\n"))


def test_a_value_of_a_mebibyte_is_cut_until_asked_for(console: ConsolePage) -> None:
    topic = console.topic("large", {"value": "x" * 1_000_000})
    console.open(f"topics/{topic}/messages")
    expect(console.rows()).to_have_count(1)
    console.open(f"topics/{topic}/messages/0/0")
    shown = console.tab.get_by_label("Value", exact=True)
    expect(console.tab.locator(".cut")).to_contain_text("The first 64 KiB of 977 KiB")
    assert console.tab.evaluate("document.querySelector('pre.value').textContent.length") == 65_536
    console.button("Show all").click()
    expect(console.tab.locator(".cut")).to_be_hidden()
    assert len(shown.text_content() or "") == 1_000_000


def test_a_message_is_edited_and_sent_again(console: ConsolePage) -> None:
    topic = console.topic("resent", {"value": {"total": 1}, "key": "k", "headers": {"a": "b"}})
    console.open(f"topics/{topic}/messages/0/0")
    console.tab.get_by_role("link", name="Edit and resend").click()
    expect(console.title).to_have_text("Publish")
    expect(console.tab.locator("main")).to_contain_text("Nothing: it would be sent again as it is.")
    console.tab.get_by_label("Value", exact=True).fill('{"total": 2}')
    expect(console.tab.locator(".difference del")).to_have_text('-   "total": 1')
    expect(console.tab.locator(".difference ins")).to_have_text('+   "total": 2')
    expect(console.commands.first).to_contain_text("--key k --header a=b")
    console.button("Publish", exact=True).click()
    console.tab.get_by_role("link", name="Look at 0:1").click()
    expect(console.tab.get_by_label("Value", exact=True)).to_contain_text('"total": 2')
    stored = console.broker.request("GET", f"/topics/{topic}/messages?partition=0&offset=1")[1]["messages"][0]
    assert (stored["value"], stored["key"], stored["headers"]) == ('{"total": 2}', "k", {"a": "b"})


def test_a_file_with_a_message_in_each_line(console: ConsolePage) -> None:
    topic = console.topic("lines")
    console.open(f"publish?topic={topic}")
    lines = "\n".join(f"line {number}" for number in range(1200)).encode()
    file = {"name": "lines.txt", "mimeType": "text/plain", "buffer": lines}
    console.tab.locator("input[type=file]").set_input_files(file)
    expect(console.tab.locator(".outcome")).to_contain_text("1,200 messages of 1,200 stored")
    assert console.broker.request("GET", f"/topics/{topic}")[1]["total_messages"] == 1200


def test_a_refused_message_says_why(console: ConsolePage) -> None:
    topic = console.topic("refuses", max_message_bytes="1KiB")
    console.open(f"publish?topic={topic}")
    console.tab.get_by_label("Value", exact=True).fill("x" * 5000)
    console.button("Publish", exact=True).click()
    expect(console.tab.locator(".outcome")).to_contain_text("limit")


def test_a_page_of_messages_is_downloaded(console: ConsolePage) -> None:
    topic = console.topic("saved", {"value": "=1+1", "key": 'a,"b"'}, {"value": "two"}, {"value": "x" * 5000})
    console.open(f"topics/{topic}/messages")
    with console.tab.expect_download() as download:
        console.button("Download JSONL").click()
    lines = [json.loads(line) for line in download.value.path().read_text().splitlines()]
    assert [line["value"] for line in lines] == ["x" * 5000, "two", "=1+1"]
    with console.tab.expect_download() as download:
        console.button("CSV", exact=True).click()
    text = download.value.path().read_text()
    assert '"a,""b"""' in text
    assert ",'=1+1" in text
    with console.tab.expect_download() as download:
        console.button("Parquet", exact=True).click()
    rows = pq.read_table(download.value.path()).to_pylist()
    assert [(row["offset"], row["key"], row["value"][:8]) for row in rows] == [
        (2, None, b"x" * 8),
        (1, None, b"two"),
        (0, b'a,"b"', b"=1+1"),
    ]
    assert len(rows[0]["value"]) == 5000


def test_the_life_of_a_message(console: ConsolePage) -> None:
    topic = console.topic("lived", "1")
    body = {"group": "senders", "consumer": "sender-1", "max_messages": 1}
    received = console.broker.request("POST", f"/topics/{topic}/receive", body)[1]["messages"][0]
    refusal = {"receipt_handle": received["receipt_handle"], "reason": "no <b>stock</b>"}
    console.broker.request("POST", "/messages/reject", refusal)
    console.open(f"topics/{topic}/messages/0/0")
    life = console.tab.locator(".life li")
    expect(life.first).to_contain_text("published")
    expect(life.filter(has_text="delivered")).to_contain_text("consumer sender-1")
    expect(life.last).to_contain_text("no <b>stock</b>")
    life.last.get_by_role("link").click()
    expect(console.tab.locator(".crumbs")).to_contain_text(f"{topic}.dlq")
