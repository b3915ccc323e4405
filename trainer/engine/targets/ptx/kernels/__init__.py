"""Kernel generators: LLVM IR for one thread of a grid."""
