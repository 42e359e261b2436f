"""How commands call a service that runs on this machine."""
