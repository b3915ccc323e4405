"""Finds errors in programs: wrong gradients, failing operations, the first NaN."""
