"""The child of a fork computes: it starts threads of its own, and no other thread holds a lock in it."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, threading
import numpy as np
from trainer import engine

x = engine.asarray(np.ones((300, 300), np.float32))
step = engine.trace(lambda a: engine.sum(engine.matmul(a, a) + a))


def total():
    return engine.sum(engine.matmul(x, x)).item(), step(x).item()


expected = total()
done = threading.Event()


def compute():
    while not done.is_set():
        total()


thread = threading.Thread(target=compute)
thread.start()
codes = []
for _ in range(5):
    child = os.fork()
    if not child:
        os._exit(0 if total() == expected == total() else 3)
    codes.append(os.waitpid(child, 0)[1])
done.set()
thread.join()
assert total() == expected
sys.exit(str(codes) if any(codes) else 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_the_child_of_a_fork_computes_what_its_parent_does() -> None:
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM], check=True, timeout=120)
