"""Plays letter by letter: a language model of Shakespeare with a transformer.

Time: 8 minutes.
"""
