"""Photos from maps with pix2pix, a conditional generative adversarial network.

Time: 10 minutes.
"""
