"""What the native gateway responds, by capability."""
