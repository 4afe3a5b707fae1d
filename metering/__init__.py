"""From events to the rated usage ledger."""
