"""Continuous integration: statuses, check runs, workflow runs and their jobs."""
