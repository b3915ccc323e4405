"""Finding errors in programs: wrong gradients, operations that fail, the first NaN."""
