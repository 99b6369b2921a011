"""Speed, measured against what people use today: run ``python -m benchmarks``."""
