"""The other end of the API: how commands speak to a service on this machine."""
