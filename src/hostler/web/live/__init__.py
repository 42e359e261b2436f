"""Live streams: `hub` watches the database and folders once for all clients, `streams` sends."""
