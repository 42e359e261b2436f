"""Pull requests, their reviews, and how they follow pushes."""
