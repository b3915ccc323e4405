"""Cell nuclei one by one: a U-Net says what is a nucleus and where its middle lies.

Time: 14 minutes.
"""
