"""Writing LLVM IR, for any target: functions, bodies of kernels, mathematics, and how partial results combine."""
