"""Writes LLVM IR for any target: functions, kernel bodies, mathematics, and the combination of partial results."""
