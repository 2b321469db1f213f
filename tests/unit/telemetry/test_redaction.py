"""What a support bundle leaves out."""

from quiver.telemetry.redaction import LEFT_OUT, scrubbed, without_error_texts, without_secrets

_TRACE = """Traceback (most recent call last):
  File "/app/quiver/x.py", line 3, in handle
    decode(value)
    ^^^^^^^^^^^^^
  File "/app/quiver/y.py", line 9, in decode
ValueError: cannot read 'my secret order'
    and its second line

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/quiver/z.py", line 1, in <module>
    raise quiver.model.errors.CorruptData(x)
quiver.model.errors.CorruptData: my secret order
KeyError
"""


def test_content_is_left_out_wherever_it_is() -> None:
    document = {
        "key": "k",
        "key_base64": "aw==",
        "messages": [{"value": "v"}],
        "groups": [{"partitions": [{"metadata": "m", "offset": 3}]}],
        "headers": {"a": "b"},
        "last_error": "e",
        "blocked_keys": [[b"k", 2]],
        "metadata": "",
        "messages_total": 7,
    }
    assert scrubbed(document) == {
        "key": LEFT_OUT,
        "key_base64": LEFT_OUT,
        "messages": 1,
        "groups": [{"partitions": [{"metadata": LEFT_OUT, "offset": 3}]}],
        "headers": LEFT_OUT,
        "last_error": LEFT_OUT,
        "blocked_keys": 1,
        "metadata": "",
        "messages_total": 7,
    }


def test_a_topic_may_be_called_like_a_field() -> None:
    assert scrubbed({"topic_stats": {"value": {"messages": 3}}}) == {"topic_stats": {"value": {"messages": 3}}}


def test_secrets_are_masked_by_name_and_by_form() -> None:
    assert scrubbed({"admin_password": "x", "api_key": "y", "tokens": 3, "other": "a"}) == {
        "admin_password": "********",
        "api_key": "********",
        "tokens": 3,
        "other": "a",
    }
    assert without_secrets("GET http://me:pw@host/x") == "GET http://me:********@host/x"
    assert without_secrets("Authorization: Bearer abc.def-1") == "Authorization: Bearer ********"
    assert without_secrets("password=abc next") == "password=******** next"
    assert without_secrets("used qv_a1_s3cr3t now") == "used ******** now"
    assert without_secrets("GET /topics/orders 200") == "GET /topics/orders 200"


def test_tracebacks_keep_places_and_types() -> None:
    shown = without_error_texts(_TRACE)
    assert "secret" not in shown
    assert "second line" not in shown
    assert shown.splitlines() == [
        "Traceback (most recent call last):",
        '  File "/app/quiver/x.py", line 3, in handle',
        "    decode(value)",
        '  File "/app/quiver/y.py", line 9, in decode',
        "ValueError",
        "During handling of the above exception, another exception occurred:",
        "Traceback (most recent call last):",
        '  File "/app/quiver/z.py", line 1, in <module>',
        "    raise quiver.model.errors.CorruptData(x)",
        "quiver.model.errors.CorruptData",
        "KeyError",
    ]
