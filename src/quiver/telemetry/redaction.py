"""What a support bundle leaves out: content of messages wherever it may appear, and secrets."""

import re
from collections.abc import Mapping
from typing import Any

MASKED = "********"
LEFT_OUT = "(left out)"

_CONTENT = re.compile(
    r"^(key|value|headers?|payload|body|metadata|description|reason|last_error|error|example|shape)(_base64)?$"
)
"""Fields that hold what users wrote: content, keys, headers, and texts of errors, which often quote them."""
_COUNTED = ("blocked_keys", "messages")
"""Lists of which only the length is shown."""
_SECRET_NAME = re.compile(r"(secret|password|passphrase|token|credential|api_?key|private_?key)", re.IGNORECASE)
_SECRET_TEXTS = (
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+(@)"), rf"\1{MASKED}\2"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]+"), rf"\1 {MASKED}"),
    (re.compile(r"(?i)\b((?:\w*(?:secret|password|token|api_?key))\s*[=:]\s*)\S+"), rf"\1{MASKED}"),
    (re.compile(r"\bqv_[A-Za-z0-9]+_[A-Za-z0-9_-]+"), MASKED),
)
_TRACE_START = ("Traceback (most recent call last):", "During handling of the above", "The above exception was")


def scrubbed(document: Any) -> Any:
    """A copy of a response without content of messages and without secrets."""
    if isinstance(document, Mapping):
        return {name: _scrubbed_field(str(name), value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [scrubbed(item) for item in document]
    return without_secrets(document) if isinstance(document, str) else document


def _scrubbed_field(name: str, value: Any) -> Any:
    if name in _COUNTED and isinstance(value, list):
        return len(value)
    if _SECRET_NAME.search(name) and isinstance(value, str) and value:
        return MASKED
    is_content = _CONTENT.match(name) and (isinstance(value, str) or name.startswith("header"))
    return LEFT_OUT if is_content and value else scrubbed(value)


def without_secrets(text: str) -> str:
    """A line of text with passwords in URLs, tokens and the like replaced by stars."""
    for pattern, instead in _SECRET_TEXTS:
        text = pattern.sub(instead, text)
    return text


def without_error_texts(traceback: str) -> str:
    """A traceback with its places in the code and the types of errors; their texts may quote a message."""
    kept: list[str] = []
    for line in traceback.splitlines():
        if line.startswith(("  File ", *_TRACE_START)):
            kept.append(line)
        elif line.startswith("    ") and kept and kept[-1].startswith("  File "):
            kept.append(line)  # the line of source code
        elif named := re.match(r"^[\w.]+(?=: |$)", line):
            kept.append(named[0])
    return "\n".join(kept)
