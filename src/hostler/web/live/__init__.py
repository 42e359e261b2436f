"""Live streams: one who watches for all, and each client at its own place."""
