"""Whole numbers as users write them, and values as errors show them."""

_MOST_DIGITS = 19
_SHOWN = 100
HIGHEST = 2**63 - 1
"""No offset, id or time is higher."""


def whole_number(text: str) -> int | None:
    """The number that plain digits mean, up to the highest there is; None for any other text.

    `str.isdigit` takes digits of all scripts, and superscripts, which `int` does not; and `int` takes no text of
    thousands of digits.
    """
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number <= HIGHEST else None


def shown(value: object) -> str:
    """A value as an error says it: what does not fit on a line is cut off."""
    text = repr(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
