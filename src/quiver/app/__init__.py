"""The composition root: configuration and wiring. The only place that picks engines."""
