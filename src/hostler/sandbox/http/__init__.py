"""HTTP: the server, requests and responses, routing, pagination, conditional requests, limits."""
