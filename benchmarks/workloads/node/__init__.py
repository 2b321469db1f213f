"""The broker process: start-up, memory, imports, stalls of its loop."""
