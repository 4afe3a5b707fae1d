"""What usage costs."""
