"""How results are printed: tables, JSON, YAML, messages, progress."""
