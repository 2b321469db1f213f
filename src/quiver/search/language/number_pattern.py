"""Regular expressions for the numbers in JSON that can fit a comparison: a search leaves out messages without one.

A pattern finds every number that fits, and few that do not: the part before the point decides. What an exponent or a
long fraction makes of a number is not looked at: such a number is always found.
"""

_EXACT_DIGITS = 15
"""A number with more digits may be rounded, across the next whole number too."""
_MAX_DIGITS = 20
_END = "(?:[^0-9]|$)"


def number_pattern(operator: str, constant: float) -> str | None:
    """What a number that `operator` (of Python's syntax tree) lets pass begins with; None if that is not known."""
    below = int(abs(constant)) if abs(constant) < 10**_MAX_DIGITS else 0
    if not below:
        return None
    digits, is_negative = str(below), constant < 0
    match operator, is_negative:
        case "Gt" | "GtE", False:
            found = _at_least(digits)
        case "Gt" | "GtE", True:
            found = f"[0-9]|-{_at_most(digits)}"
        case "Lt" | "LtE", False:
            found = f"-|{_at_most(digits)}"
        case "Lt" | "LtE", True:
            found = f"-{_at_least(digits)}"
        case "Eq", _:
            found = f"{'-' if is_negative else ''}{digits}{_END}"
        case _:
            return None
    rounded = f"-?[0-9]+[.][0-9]{{{max(1, _EXACT_DIGITS - len(digits))}}}"
    return f"(?:{found}|{rounded}|-?[0-9.]+[eE])"


def _at_least(digits: str) -> str:
    """A whole number that is not smaller; more digits may follow."""
    more = [
        f"{digits[:place]}[{int(digit) + 1}-9]{_any(len(digits) - place - 1)}"
        for place, digit in enumerate(digits)
        if digit != "9"
    ]
    return f"(?:{'|'.join([digits, *more, f'[1-9]{_any(len(digits))}'])})"


def _at_most(digits: str) -> str:
    less = [
        f"{digits[:place]}[0-{int(digit) - 1}]{_any(len(digits) - place - 1)}"
        for place, digit in enumerate(digits)
        if digit != "0"
    ]
    shorter = [f"[0-9]{{1,{len(digits) - 1}}}"] if len(digits) > 1 else []
    return f"(?:{'|'.join([digits, *less, *shorter])}){_END}"


def _any(count: int) -> str:
    return f"[0-9]{{{count}}}" if count else ""
