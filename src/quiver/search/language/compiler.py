"""From the tree of an expression to closures over a row. Only the nodes listed here exist in the language."""

import ast
from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.errors import InvalidRequest
from quiver.model.numbers import shown
from quiver.model.times import parse_time_ms
from quiver.records.arrow_arrays import repeated_text
from quiver.search.language import operators
from quiver.search.language.functions import FUNCTIONS, MATCHES, MATCHES_USAGE, METHODS
from quiver.search.language.row import NAMES, JsonValue, Row
from quiver.search.language.syntax import CONSTANTS, Source

Evaluate = Callable[[Row], JsonValue]

_MAX_PATTERN = 500
_MAX_NUMBER_BITS = 64
_MAX_REPEAT = 200


class Pattern(NamedTuple):
    """A regular expression; it is evaluated for many rows at once."""

    text: Evaluate
    pattern: str


class Compiler:
    """Compiles one expression. Afterwards `names` are the parts of a message that it reads."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.names: set[str] = set()
        self.patterns: list[Pattern] = []
        """In the order in which they can be evaluated: one that is within another comes first."""

    def compile(self, node: ast.expr) -> Evaluate:
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name():
                return self._name(node)
            case ast.Attribute(value=value, attr=name):
                return _field(self.compile(value), name)
            case ast.Subscript(value=value, slice=index):
                return self._item(value, index)
            case ast.BoolOp(op=op, values=values):
                return _all_of(self._each(values)) if isinstance(op, ast.And) else _any_of(self._each(values))
            case ast.UnaryOp():
                return self._unary(node)
            case ast.BinOp():
                return self._binary(node)
            case ast.Compare():
                return self._comparison(node)
            case ast.Call():
                return self._call(node)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return _list_of(self._each(items))
        raise self._source.error(node, f"{_what(node)} not part of the language")

    def _each(self, nodes: list[ast.expr]) -> list[Evaluate]:
        return [self.compile(node) for node in nodes]

    def _constant(self, node: ast.Constant) -> Evaluate:
        value = node.value
        if type(value) not in (bool, int, float, str, type(None)):
            raise self._source.error(node, f"{shown(value)} is not a text, a number, true, false or null")
        if type(value) is int and value.bit_length() > _MAX_NUMBER_BITS:
            raise self._source.error(node, "this number is too large")
        return lambda row: value

    def _name(self, node: ast.Name) -> Evaluate:
        name = node.id
        if name in CONSTANTS:
            constant = CONSTANTS[name]
            return lambda row: constant
        if name in FUNCTIONS or name == MATCHES:
            raise self._source.error(node, f"{name} is a function: {_usage(name)}")
        if name not in NAMES:
            raise self._source.error(node, f"there is no {shown(name)}; a message has {', '.join(NAMES)}")
        self.names.add(name)
        return itemgetter(NAMES.index(name))

    def _item(self, value: ast.expr, index: ast.expr) -> Evaluate:
        whole = self.compile(value)
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            return _field(whole, index.value)
        place = self.compile(index)
        return lambda row: operators.field(whole(row), place(row))

    def _unary(self, node: ast.UnaryOp) -> Evaluate:
        operand = self.compile(node.operand)
        match node.op:
            case ast.Not():
                return lambda row: not operand(row)
            case ast.USub():
                return lambda row: operators.negative(operand(row))
        raise self._source.error(node, "this operator is not part of the language; there are not and -")

    def _binary(self, node: ast.BinOp) -> Evaluate:
        operator = operators.ARITHMETIC.get(type(node.op).__name__)
        if operator is None:
            raise self._source.error(node, "this operator is not part of the language; there are + - * / // %")
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda row: operator(left(row), right(row))

    def _comparison(self, node: ast.Compare) -> Evaluate:
        sides = [node.left, *node.comparators]
        links = [self._link(left, op, right) for left, op, right in zip(sides, node.ops, sides[1:], strict=False)]
        return links[0] if len(links) == 1 else _all_of(links)

    def _link(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Evaluate:
        if isinstance(op, ast.Is | ast.IsNot):
            return self._null_check(left, op, right)
        for side in (left, right):
            if _is_null(side):
                raise self._source.error(
                    side, "comparisons with null are false; write `is null`, `is not null` or exists(x)"
                )
        first, second = self._side(left, right), self._side(right, left)
        if isinstance(right, ast.Constant):
            is_so = operators.compared_with(type(op).__name__, second(()))
            if is_so is not None:
                return lambda row: is_so(first(row))
        compare = operators.COMPARISONS[type(op).__name__]
        return lambda row: compare(first(row), second(row))

    def _null_check(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Evaluate:
        if not _is_null(right):
            raise self._source.error(right, "`is` is only for null; compare with ==")
        value = self.compile(left)
        if isinstance(op, ast.Is):
            return lambda row: value(row) is None
        return lambda row: value(row) is not None

    def _side(self, node: ast.expr, other: ast.expr) -> Evaluate:
        """A side of a comparison. A text beside `timestamp` is a time."""
        match other, node:
            case ast.Name(id="timestamp"), ast.Constant(value=str(text)):
                try:
                    time_ms = parse_time_ms(text, "the time")
                except InvalidRequest as error:
                    raise self._source.error(node, error.message) from None
                return lambda row: time_ms
        return self.compile(node)

    def _call(self, node: ast.Call) -> Evaluate:
        name, arguments = self._called(node)
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in arguments):
            raise self._source.error(node, f"write {_usage(name)}")
        if name == MATCHES:
            return self._matches(node, arguments)
        function = FUNCTIONS[name]
        if len(arguments) != function.parameters:
            raise self._source.error(
                node, f"{name} takes {function.parameters}, not {len(arguments)}: {function.usage}"
            )
        call, values = function.call, self._each(arguments)
        if len(values) == 1:
            only = values[0]
            return lambda row: call(only(row))
        first, second = values
        return lambda row: call(first(row), second(row))

    def _called(self, node: ast.Call) -> tuple[str, list[ast.expr]]:
        match node.func:
            case ast.Name(id=name) if name in FUNCTIONS or name == MATCHES:
                return name, node.args
            case ast.Attribute(value=subject, attr=name) if name in METHODS:
                return name, [subject, *node.args]
            case ast.Name(id=name) | ast.Attribute(attr=name):
                raise self._source.error(
                    node, f"there is no function {shown(name)}; there are {', '.join([*FUNCTIONS, MATCHES])}"
                )
        raise self._source.error(node, "only functions with a name can be called")

    def _matches(self, node: ast.Call, arguments: list[ast.expr]) -> Evaluate:
        match arguments:
            case [text, ast.Constant(value=str(pattern))]:
                pass
            case _:
                raise self._source.error(node, f"write {MATCHES_USAGE}; the pattern is a text in quotes")
        evaluate = self.compile(text)
        self._check_pattern(arguments[1], pattern)
        self.patterns.append(Pattern(evaluate, pattern))
        return itemgetter(len(NAMES) + len(self.patterns) - 1)

    def _check_pattern(self, node: ast.expr, pattern: str) -> None:
        if len(pattern) > _MAX_PATTERN:
            raise self._source.error(node, f"a pattern has at most {_MAX_PATTERN} characters")
        if any(int(number) > _MAX_REPEAT for number in _repeats(pattern)):
            raise self._source.error(node, f"a pattern repeats something at most {_MAX_REPEAT} times")
        try:
            pc.match_substring_regex(repeated_text("", 1), pattern)
        except (pa.ArrowException, UnicodeEncodeError, ValueError) as error:
            said = str(error).removeprefix("Invalid regular expression: ")
            raise self._source.error(node, f"the pattern is not one of RE2: {shown(said)}") from None


def _repeats(pattern: str) -> list[str]:
    """The numbers in `{2,300}`."""
    inside = [part.partition("}")[0] for part in pattern.split("{")[1:]]
    return [number for text in inside for number in text.split(",") if number.isascii() and number.isdigit()]


def _usage(name: str) -> str:
    return MATCHES_USAGE if name == MATCHES else FUNCTIONS[name].usage


def _is_null(node: ast.expr) -> bool:
    return (isinstance(node, ast.Constant) and node.value is None) or (
        isinstance(node, ast.Name) and node.id in ("null", "None")
    )


def _what(node: ast.expr) -> str:
    words = {
        "Lambda": "functions of your own are",
        "IfExp": "`if` is",
        "ListComp": "loops are",
        "SetComp": "loops are",
        "DictComp": "loops are",
        "GeneratorExp": "loops are",
        "JoinedStr": "f-strings are",
        "NamedExpr": "assignments are",
        "Dict": "objects are",
        "Slice": "slices are",
        "Await": "`await` is",
        "Yield": "`yield` is",
        "YieldFrom": "`yield` is",
        "Starred": "* is",
    }
    return words.get(type(node).__name__, "this is")


def _field(whole: Evaluate, name: str) -> Evaluate:
    def read(row: Row) -> JsonValue:
        found = whole(row)
        return found.get(name) if type(found) is dict else None

    return read


def _all_of(parts: list[Evaluate]) -> Evaluate:
    def check(row: Row) -> JsonValue:
        found: JsonValue = None
        for part in parts:
            found = part(row)
            if not found:
                break
        return found

    return check


def _any_of(parts: list[Evaluate]) -> Evaluate:
    def check(row: Row) -> JsonValue:
        found: JsonValue = None
        for part in parts:
            found = part(row)
            if found:
                break
        return found

    return check


def _list_of(parts: list[Evaluate]) -> Evaluate:
    return lambda row: [part(row) for part in parts]
