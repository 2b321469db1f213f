"""Small classes in Java that are needed inside Spark, compiled by the compiler that Spark has for generated code."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark import SparkContext

_JAVA_PACKAGE = "quiver.spark"
_classes: dict[tuple[object, str], Any] = {}
"""By gateway and name. Compiled once: the gateway finds methods by the name of a class."""
_compiling = threading.Lock()


class JavaClass(NamedTuple):
    """A class, and those that it uses. Their sources are files of a Python package."""

    package: str
    name: str
    uses: tuple[str, ...] = ()


def compiled(context: "SparkContext", wanted: JavaClass) -> Any:
    """An instance of a class. Raises what Spark raises."""
    gateway: Any = context._gateway
    jvm: Any = context._jvm
    made = _class(context, wanted)
    return made.getConstructor(gateway.new_array(jvm.Class, 0)).newInstance(gateway.new_array(jvm.Object, 0))


def compile_meanwhile(context: "SparkContext", wanted: Sequence[JavaClass]) -> None:
    """Begins to compile classes that will be needed: `compiled` waits for them. What fails is left to `compiled`."""

    def work() -> None:
        for each in wanted:
            with suppress(Exception):
                _class(context, each)

    threading.Thread(target=work, name="compile-meanwhile", daemon=True).start()


def _class(context: "SparkContext", wanted: JavaClass) -> Any:
    gateway: Any = context._gateway
    with _compiling:
        made = _classes.get((gateway, wanted.name))
        if made is None:
            made = _classes[gateway, wanted.name] = _compile(context, wanted)
        return made


def _compile(context: "SparkContext", wanted: JavaClass) -> Any:
    jvm: Any = context._jvm
    java_context: Any = context._jsc
    loader = java_context.getClass().getClassLoader()
    for name in (*wanted.uses, wanted.name):
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(files(wanted.package).joinpath(f"{name}.java").read_text())
        loader = compiler.getClassLoader()
    return loader.loadClass(f"{_JAVA_PACKAGE}.{wanted.name}")
