"""What every other folder stands on: money, billing time, the clock, settings, the database, errors."""
