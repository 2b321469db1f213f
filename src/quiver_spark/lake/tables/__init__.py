"""The formats of the lake's table: Delta and Iceberg."""
