"""Routes of dead letters."""
