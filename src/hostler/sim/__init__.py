"""The real rules under a fake clock, against limits that they cannot see."""
