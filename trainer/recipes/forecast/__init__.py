"""The temperature of the next day, hour by hour, with a long short-term memory.

Time: 15 seconds.
"""
