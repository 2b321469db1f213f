"""The storage port, its engines, and what every log with an owner needs: a writer and a journal."""
