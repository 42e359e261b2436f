"""The scripted agent's program: plays a script in a checkout. Standard library alone."""
