"""Plays letter by letter: a language model of Shakespeare with a transformer.

Time: 10 minutes.
"""
