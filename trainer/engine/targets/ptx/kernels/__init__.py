"""The text of kernels: LLVM IR for one thread of a grid."""
