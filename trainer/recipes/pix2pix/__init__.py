"""Translates maps to photos with pix2pix, a conditional generative adversarial network.

Time: 17 minutes.
"""
