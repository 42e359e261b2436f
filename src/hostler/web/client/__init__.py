"""Let commands call the service that runs on this machine."""
