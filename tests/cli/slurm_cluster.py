"""A Slurm cluster of this machine alone, for tests: its daemons are on loopback and end with the context."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
SECONDS_TO_START, SECONDS_TO_END = 30.0, 20.0
CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=batch Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def missing_commands() -> list[str]:
    """The commands of Slurm and MUNGE that are not installed."""
    return [name for name in COMMANDS if _path(name) is None]


class SlurmCluster:
    """A cluster of one node and one partition, `batch`.

    Args:
        root: a new folder for its files.
    """

    def __init__(self, root: Path) -> None:
        self._root, self.config = root, root / "slurm.conf"
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> SlurmCluster:
        root = self._root
        for folder in (root, root / "state", root / "spool"):
            folder.mkdir()
        root.chmod(0o755)
        host = socket.gethostname().partition(".")[0]
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        config = CONFIG.format(root=root, host=host, user=user, ports=_free_ports(2), cores=os.cpu_count())
        self.config.write_text(config)
        (root / "munge.key").write_bytes(os.urandom(128))
        (root / "munge.key").chmod(0o400)
        try:
            self._start(
                "munged", "--foreground", "--force", f"--key-file={root}/munge.key", f"--socket={root}/munge.socket",
                f"--pid-file={root}/munged.pid", f"--log-file={root}/munged.log", f"--seed-file={root}/munged.seed",
            )  # fmt: skip
            self._start("slurmctld", "-D", "-f", str(self.config))
            self._start("slurmd", "-D", "-f", str(self.config), "-N", host)
            deadline = time.monotonic() + SECONDS_TO_START
            while "idle" not in (state := self._answer("sinfo", "--noheader", "--format=%t")):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the node is not idle: {state}\n{self._logs()}")
                time.sleep(0.1)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        deadline = time.monotonic() + SECONDS_TO_END
        while self._answer("squeue", "--noheader") and time.monotonic() < deadline:
            time.sleep(0.1)  # a step can't end without its daemons
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _start(self, name: str, *words: str) -> None:
        path = _path(name)
        assert path is not None
        output = open(self._root / f"{name}.output", "wb")  # noqa: SIM115  (closed by the system)
        self._daemons.append(subprocess.Popen([path, *words], stdout=output, stderr=output))

    def _answer(self, *command: str) -> str:
        environment = {**os.environ, "SLURM_CONF": str(self.config)}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout

    def _logs(self) -> str:
        texts = [f"{file.name}:\n{file.read_text()[-800:]}" for file in self._root.glob("*.[lo]*") if file.is_file()]
        return "\n".join(texts)


def _path(name: str) -> str | None:
    """Daemons are in /usr/sbin, which is not on every user's path."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
