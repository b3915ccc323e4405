"""Handwritten digits with a small convolutional network.

Time: 16 seconds.
"""
