"""The panels: each a function from a frame and a size to lines. Colours are decided elsewhere."""
