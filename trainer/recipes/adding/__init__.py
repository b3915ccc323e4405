"""Sums over 200 steps with a recurrent network of ReLUs that begins as the identity.

Time: 4 minutes.
"""
