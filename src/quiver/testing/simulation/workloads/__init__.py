"""What clients do, and what must hold afterwards: one module for each promise."""
