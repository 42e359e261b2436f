"""The screens in the terminal: `hostler top` and `hostler console`. They draw the snapshot."""
