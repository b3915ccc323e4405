"""Tuning: the parameters of kernel templates, from a cost model, a cache on disk, and measurements in real steps.

tuner             `tuning(...)`: the modes; the public interface
contest           comparison of candidates in real steps (pure)
processor_budget  processor time that the helper may use
queue             the next candidate to try, and the results of earlier ones
process           the parent's side of the helper process; helper: the code that runs in it
cache             decisions on disk; record: the report of each decision
"""
