"""Small classes in Java that are needed inside Spark, compiled by the compiler that Spark has for generated code."""

from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_PACKAGE = "quiver.spark"
_classes: dict[tuple[object, str], Any] = {}
"""By gateway and name. Compiled once: the gateway finds methods by the name of a class."""


def compiled(spark: "SparkSession", package: str, name: str) -> Any:
    """An instance of the class whose source is `name`.java in a Python package. Raises what Spark raises."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    made = _classes.get((gateway, name))
    if made is None:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        session: Any = spark._jsparkSession
        compiler.setParentClassLoader(session.getClass().getClassLoader())
        compiler.cook(files(package).joinpath(f"{name}.java").read_text())
        made = _classes[gateway, name] = compiler.getClassLoader().loadClass(f"{_JAVA_PACKAGE}.{name}")
    return made.getConstructor(gateway.new_array(jvm.Class, 0)).newInstance(gateway.new_array(jvm.Object, 0))
