"""The device `cuda`: programs of the target `ptx` on NVIDIA GPUs, through CuPy.

driver    CuPy, or the recording driver of the tests: the only module that imports CuPy; its error messages
memory    blocks in the GPU's memory, and copies to and from the host
program   compiled programs: launches one by one, or a step as one CUDA graph
exchange  sums over the GPUs of several processes, with NCCL
device    the device: compiling, and the cache of kernels
"""
