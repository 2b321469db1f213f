"""Commands whose options come from a table instead of being written out one by one."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Annotated, Any

import typer

Command = Callable[..., None]


def option(name: str, kind: Any, *flags: str, **details: Any) -> inspect.Parameter:
    """An optional flag that is None when it is not given."""
    annotation = Annotated[kind, typer.Option(*flags, **details)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def with_options(
    options: Sequence[inspect.Parameter], into: str, gather: Callable[[Mapping[str, Any]], Any]
) -> Callable[[Command], Command]:
    """Replaces the parameter `into` of a command by options; `gather` makes its value from theirs."""

    def decorate(command: Command) -> Command:
        own = [p for p in inspect.signature(command).parameters.values() if p.name != into]

        @wraps(command)
        def run(**values: Any) -> None:
            command(**{p.name: values[p.name] for p in own}, **{into: gather(values)})

        keyword_only = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        parameters = [*keyword_only, *options]
        del run.__wrapped__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate
