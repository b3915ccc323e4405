"""What the scripted task is to do."""

from trainer.configs import Section


class Options(Section):
    """`script` names a method of the stand-in learner in task.py."""

    script: str = "finish"
