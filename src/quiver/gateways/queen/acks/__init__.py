"""Acknowledgements by Queen's rules."""
