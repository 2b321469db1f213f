"""Publishing and reading: batch sizes, several producers and consumers, HTTP."""
