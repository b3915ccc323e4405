"""Detection: an anchor-free one-stage detector with a feature pyramid, on blood cells.

Time: 9 minutes.
"""
