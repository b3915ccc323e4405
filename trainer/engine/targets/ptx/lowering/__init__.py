"""Lowers work items to kernel launches."""
