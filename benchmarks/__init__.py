"""Benchmarks against the libraries that people use today: run ``python -m benchmarks``."""
