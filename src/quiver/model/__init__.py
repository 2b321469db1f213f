"""Value types, limits and errors. Imports nothing else of Quiver and never loads pyarrow."""
