"""Generates new photos of clothes from noise with LSGAN: two networks, two optimizers.

Time: 15 minutes.
"""
