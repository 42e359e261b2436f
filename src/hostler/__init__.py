"""Hostler runs coding agents on GitHub issues."""

__version__ = "0.1.0"
