"""Messages: the one publish path, the one fetch path, and browsing."""
