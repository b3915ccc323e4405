"""Parts that recipes share: networks and their blocks, losses and target encodings, one idea per file."""
