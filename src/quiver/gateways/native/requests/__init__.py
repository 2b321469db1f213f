"""What the native gateway answers, by capability."""
