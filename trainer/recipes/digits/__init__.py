"""Handwritten digits with a small convolutional network.

Time: 15 seconds.
"""
