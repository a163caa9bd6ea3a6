"""The service under load: see `python -m benchmarks.service --help`."""
