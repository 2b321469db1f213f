"""Reads the text of an expression. Errors are sentences with the column."""

import ast
import warnings

from quiver.model.errors import InvalidRequest

MAX_CHARACTERS = 2_000
MAX_DEPTH = 32
MAX_CALLS = 50

CONSTANTS = {"true": True, "false": False, "null": None}


class Source:
    """An expression and its tree."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            raise InvalidRequest(
                problem=f"where: the expression has {len(text):,} characters; at most {MAX_CHARACTERS:,} are allowed"
            )
        self._line = text.lstrip().replace("\n", " ").replace("\r", " ").rstrip()
        self._indent = len(text) - len(text.lstrip())
        if not self._line:
            raise InvalidRequest(problem="where: the expression is empty; write one such as value.total > 300")
        self.tree = self._parsed()
        self._check_depth()

    def error(self, node: ast.AST, problem: str) -> InvalidRequest:
        """Says what is wrong, and where."""
        return self._error(
            len(self._line.encode()[: getattr(node, "col_offset", 0)].decode(errors="replace")), problem
        )

    def _error(self, place: int, problem: str) -> InvalidRequest:
        return InvalidRequest(problem=f"where: {problem} (column {self._indent + place + 1})")

    def _parsed(self) -> ast.expr:
        try:
            with warnings.catch_warnings():  # Python warns of "\d", which people write in patterns
                warnings.simplefilter("ignore")
                return ast.parse(self._line, mode="eval").body
        except SyntaxError as error:
            place = min(max(0, (error.offset or 1) - 1), len(self._line))
            raise self._error(place, f"this is not an expression: {self._said(error.msg, place)}") from None
        except (ValueError, MemoryError, RecursionError) as error:
            said = "a null character is in it" if isinstance(error, ValueError) else "it is nested too deeply"
            raise self._error(0, f"this is not an expression: {said}") from None

    def _check_depth(self) -> None:
        """A loop, because a tree may be deeper than Python's own stack."""
        waiting: list[tuple[ast.AST, int]] = [(self.tree, 1)]
        calls = 0
        while waiting:
            node, depth = waiting.pop()
            calls += isinstance(node, ast.Call)
            if calls > MAX_CALLS:
                raise self.error(node, f"more than {MAX_CALLS} functions are called")
            if depth > MAX_DEPTH:
                raise self.error(node, f"it is nested deeper than {MAX_DEPTH} levels")
            waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]

    def _said(self, message: str, place: int) -> str:
        """What Python says, in our words where its own would mislead."""
        if self._line[place : place + 1] == "=" or "==" in message:
            return "compare with == (a single = is not part of the language)"
        return message.replace("Perhaps you forgot a comma?", "").rstrip(". ")
