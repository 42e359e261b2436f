"""Benchmarks: one module each, run by `make bench [BENCH=name]`."""
