"""From items of work to launches of kernels."""
