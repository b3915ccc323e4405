"""Readers: data sets in the formats of the field, lazy and by index."""
