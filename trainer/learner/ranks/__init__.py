"""The processes of one training: their exchange of sums and messages, and the detection of a lost process.

Rank 0 writes the run directory. All ranks run the same loop on their own shards of each batch; rank 0 makes the
decisions that depend on time, requests or files.
"""

from trainer.learner.ranks.group import ALONE, Group, RankLost

__all__ = ["ALONE", "Group", "RankLost"]
