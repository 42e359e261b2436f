"""A strict GitHub of our own: REST, webhooks, App tokens and git, with faults on demand."""
