"""Messages on their way into batches: options, chunks, columns, results."""
