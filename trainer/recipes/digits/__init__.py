"""Handwritten digits with a small convolutional network.

Time: 14 seconds.
"""
