"""Land cover of satellite images: a U-Net classifies every pixel.

Time: 15 minutes.
"""
