"""Small classes in Java that are needed inside Spark, compiled by the compiler that Spark has for generated code."""

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_PACKAGE = "quiver.spark"
_classes: dict[tuple[object, str], Any] = {}
"""By gateway and name. Compiled once: the gateway finds methods by the name of a class."""


def compiled(spark: "SparkSession", package: str, names: Sequence[str]) -> Any:
    """An instance of the last of some classes, each of which may use those before it. Their sources are files of a
    Python package. Raises what Spark raises."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    made = _classes.get((gateway, names[-1]))
    if made is None:
        session: Any = spark._jsparkSession
        loader = session.getClass().getClassLoader()
        for name in names:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(files(package).joinpath(f"{name}.java").read_text())
            loader = compiler.getClassLoader()
        made = _classes[gateway, names[-1]] = loader.loadClass(f"{_JAVA_PACKAGE}.{names[-1]}")
    return made.getConstructor(gateway.new_array(jvm.Class, 0)).newInstance(gateway.new_array(jvm.Object, 0))
