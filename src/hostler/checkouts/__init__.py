"""Git: mirrors, task checkouts, history guard, push. See docs/checkouts.md."""
