"""Metrics of texts that a model wrote, as tokens beside the right ones."""
