"""The search language: a Python-looking expression over one message, compiled to closures. Nothing is executed."""
