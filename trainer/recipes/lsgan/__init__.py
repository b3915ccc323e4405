"""New photos of clothes out of noise with LSGAN: two networks, two optimizers.

Time: 12 minutes.
"""
