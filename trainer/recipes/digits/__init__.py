"""Handwritten digits with a small convolutional network.

Time: 10 seconds.
"""
