"""Test controls: faults, the ledger of requests, and the endpoints below /_sandbox."""
