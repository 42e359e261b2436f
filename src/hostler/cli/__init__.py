"""The command line: it renders and sends commands; no rule lives here."""
