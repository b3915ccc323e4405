"""Handwritten digits with a small convolutional network.

Time: 11 seconds.
"""
