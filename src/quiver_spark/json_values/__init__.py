"""Values that are JSON: decoded into Arrow columns by a schema that is given or inferred."""
