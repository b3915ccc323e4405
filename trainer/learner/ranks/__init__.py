"""The processes of one training: how they exchange sums and messages, and how a lost one is noticed.

Rank 0 writes the run directory. All ranks run the same loop on their own shards of each batch; decisions that depend on
time, requests or files are those of rank 0.
"""

from trainer.learner.ranks.group import ALONE, Group, RankLost

__all__ = ["ALONE", "Group", "RankLost"]
