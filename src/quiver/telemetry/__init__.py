"""What the broker says about itself: logs, event loop lag."""
