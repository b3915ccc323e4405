"""Which language a surname comes from, letter by letter, with a recurrent network.

Time: 2 minutes.
"""
