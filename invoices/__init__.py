"""From the ledger to what is sent: drafts, closes, corrections, documents, proof."""
