"""Log events, metrics and traces, each name declared once.

Import what you need from the modules here; this file imports none of them, so that a command
which logs nothing pays for nothing.
"""
