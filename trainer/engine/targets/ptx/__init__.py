"""The target `ptx`: items of work as kernels for NVIDIA GPUs, in LLVM IR that LLVM lowers to PTX.

No device runs them yet: `docs/gpu.md` says what is proved.
"""
