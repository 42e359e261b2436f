"""Real git behind the sandbox: bare repositories, smart HTTP, merges, comparison, file edits."""
