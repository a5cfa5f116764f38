"""Benchmarks: what the README claims, measured side by side with a raw insert and with other projects."""
