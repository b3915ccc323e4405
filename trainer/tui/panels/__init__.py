"""The panels: each a function from a frame and a size to lines. What it looks like on a terminal is decided elsewhere."""
