"""What `quiver work` runs: the handler, the threads, the status line."""
