"""Metrics of generated text, as tokens relative to target tokens."""
