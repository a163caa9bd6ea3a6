"""Throughput, accuracy and memory of Tidegate against stated targets: `python -m benchmarks`."""
