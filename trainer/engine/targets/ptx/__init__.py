"""The target `ptx`: lowers work items to kernels for NVIDIA GPUs, in LLVM IR that LLVM lowers to PTX.

The device `cuda` runs them; `docs/gpu.md` lists which behavior is verified.
"""
