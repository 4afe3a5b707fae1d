"""The HTTP door: events in, verdicts out, and what a watchman asks."""
