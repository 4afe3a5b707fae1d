"""How fast the service is: ``make bench`` measures, and writes the table of ``docs/performance.md``."""
