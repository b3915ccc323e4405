"""Plays letter by letter: a language model of Shakespeare with a long short-term memory.

Time: 10 minutes.
"""
