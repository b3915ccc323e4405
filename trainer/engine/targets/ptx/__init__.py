"""The target `ptx`: items of work as kernels for NVIDIA GPUs, in LLVM IR that LLVM lowers to PTX.

The device `cuda` runs them; `docs/gpu.md` says what is proved.
"""
