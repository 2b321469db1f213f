"""What stream groups do, as numbers."""
