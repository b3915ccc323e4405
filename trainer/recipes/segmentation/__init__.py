"""Land cover of satellite images: a U-Net says of each pixel what it shows.

Time: 11 minutes.
"""
