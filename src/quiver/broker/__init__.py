"""The use cases, one file each. Every gateway goes through them, so there is one publish path and one fetch path."""
