"""Continuous integration.

`entities` holds statuses, checks, runs and jobs; `runs` starts, finishes and reruns workflow runs.
The sandbox runs no CI. Tests tell it what CI did.
"""
