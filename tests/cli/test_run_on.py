"""`trainer run --on`: a run on another machine and its run directory here. `ssh` is a script that runs the command in
another folder; once a real SSH server, Slurm and Ray.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trainer
from tests.cli.conftest import SCRIPTED, Commands, ended, eventually
from tests.cli.slurm_cluster import SlurmCluster, missing_commands
from trainer import TrainerError, __version__, cli
from trainer.cli.order import Order
from trainer.cli.prepare import prepare
from trainer.cli.remote.frames import MARK, FrameReader, file_frames, frame, take_file
from trainer.cli.remote.mirror import Mirror
from trainer.cli.remote.parcel import parcel_of
from trainer.cli.remote.places import Connection, place_named
from trainer.cli.remote.record import RemoteAttempt, as_here, here, how_to_continue, there, unfinished
from trainer.cli.remote.relay import relay
from trainer.configs import dump_resolved, load
from trainer.rundir import (
    EndEvent,
    EventWriter,
    LogEvent,
    RunPaths,
    create_run_at,
    open_run,
    process_is_alive,
    read_events,
    read_lock,
)
from trainer.rundir import send_request as ask

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the other machine is a shell script")

SSH = """\
#!/bin/sh
while [ $# -gt 1 ]; do
  case $1 in -T) shift;; -o) shift 2;; *) host=$1; shift; break;; esac
done
case $host in
  unknown) echo "ssh: Could not resolve hostname unknown: Name or service not known" >&2; exit 255;;
  locked) echo "me@locked: Permission denied (publickey)." >&2; exit 255;;
esac
if [ -e "$FAR/down" ]; then echo "ssh: connect to host far port 22: Connection refused" >&2; exit 255; fi
echo $$ > "$FAR/connection"
cd "$FAR"
echo "Welcome to far"
HOME="$FAR" TRAINER_CACHE_DIR="$FAR/cache" exec sh -c "$*"
"""
HERE = "--python", sys.executable


def write_program(path: Path, text: str) -> None:
    """A shell script."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Far:
    """The other machine: a folder, and the commands that reach it."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self.folder, self.commands = folder, commands
        program = folder / "bin" / "ssh"
        write_program(program, SSH)
        path = f"{program.parent}:{commands.environment['PATH']}"
        commands.environment = {**commands.environment, "FAR": str(folder), "PATH": path}

    def run(self, script: str, *words: str) -> subprocess.Popen[str]:
        """`trainer run` there."""
        return self.commands.script(script, "--on", "ssh:far", *HERE, *words)

    def cut(self) -> None:
        """Ends the connection, as a network does."""
        os.killpg(int((self.folder / "connection").read_text()), signal.SIGKILL)

    def folders(self) -> list[Path]:
        """The folders of runs there."""
        return list((self.folder / "cache" / "remote").glob("*"))

    def steps(self) -> list[int]:
        """The steps of all metrics that have arrived."""
        return [event["step"] for event in self.commands.events() if event["kind"] == "metric"]


@pytest.fixture
def far(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    other = Far(tmp_path_factory.mktemp("far"), commands)
    yield other
    commands.end_all()
    for file in other.folder.glob("cache/remote/*/process.json"):
        known = json.loads(file.read_text())
        if process_is_alive(known["pid"], known["started"]):
            os.kill(known["pid"], signal.SIGKILL)


def in_order(steps: list[int]) -> bool:
    """Whether every step is there once."""
    return steps == list(range(1, len(steps) + 1))


@pytest.mark.full
def test_a_run_on_another_machine_is_watched_and_stopped_here(far: Far) -> None:
    process = far.run("chatter")
    far.commands.event("metric")
    paths = RunPaths(far.commands.folder / "runs" / "scripted")
    (folder,) = far.folders()
    worker = int(far.commands.event("run")["pid"])
    lock = read_lock(paths)
    assert lock is not None and lock.alive and lock.pid != worker
    assert open_run(paths.root).status == "running"
    ask(paths, "checkpoint")
    latest = eventually(lambda: paths.pointed("latest"))  # named last, once the whole checkpoint is here
    assert process.poll() is None and (latest / "manifest.json").exists()
    identity = ask(paths, "stop")
    done = ended(process)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        far.commands.event("request", what="stop")["id"] == identity
        and far.commands.events()[-1]["status"] == "stopped"
    )
    assert in_order(far.steps()) and far.commands.event("run")["name"] == "scripted"
    assert "a line of its log" in paths.log.read_text()
    assert (
        str(folder) not in paths.config(1).read_text() and str(paths.root.parent.parent) in paths.config(1).read_text()
    )
    known = json.loads(paths.environment(1).read_text())
    assert known["directory"] == str(far.commands.folder) and known["packages"]
    assert not far.folders() and not paths.lock.exists() and not process_is_alive(worker)


@pytest.mark.full
def test_a_lost_connection_loses_and_doubles_nothing(far: Far) -> None:
    process = far.run("loop")
    far.commands.event("metric")
    worker = int(far.commands.event("run")["pid"])
    for _ in range(2):
        known = len(far.steps())
        far.cut()
        eventually(lambda known=known: len(far.steps()) > known + 20)
    assert process_is_alive(worker)
    messages = [event.get("message", "") for event in far.commands.events() if event["kind"] in ("warning", "log")]
    assert sum("is lost" in text for text in messages) == 2 and sum("again" in text for text in messages) == 2
    process.send_signal(signal.SIGINT)
    assert ended(process).returncode == 130
    assert far.commands.events()[-1]["status"] == "interrupted" and in_order(far.steps())


@pytest.mark.full
def test_a_run_goes_on_without_its_command_and_is_continued(far: Far) -> None:
    process = far.run("loop")
    far.commands.event("metric")
    worker = int(far.commands.event("run")["pid"])
    paths = RunPaths(far.commands.folder / "runs" / "scripted")
    lock = read_lock(paths)
    assert lock is not None
    (far.folder / "down").touch()
    os.kill(lock.pid, signal.SIGKILL)
    done = ended(process)
    assert done.returncode == 143 and "It trains on ssh:far, or has ended there: `trainer run --resume" in done.stderr
    assert process_is_alive(worker)
    refused = far.commands.finish("run", "--resume", "scripted")
    assert refused.returncode == 2 and "accepts no SSH connections" in refused.stderr
    (far.folder / "down").unlink()
    known = len(far.steps())
    process = far.commands.start("run", "--resume", "scripted")
    eventually(lambda: len(far.steps()) > known + 20)
    assert process_is_alive(worker)
    ask(paths, "stop")
    assert ended(process).returncode == 0 and in_order(far.steps()) and not far.folders()


@pytest.mark.parametrize(
    ("host", "python", "message"),
    [
        ("unknown", None, r"--on ssh:unknown: the host is unknown[\s\S]*Could not resolve"),
        ("locked", None, r"the host refuses the key[\s\S]*`ssh locked` must work without a password"),
        ("far", "/no/python", r"no such interpreter there[\s\S]*--python"),
        ("far", "bare", rf"trainer is not installed there[\s\S]*expected: {__version__}[\s\S]*pip install"),
        ("far", "old", r"another version is installed there[\s\S]*0\.0\.7 in"),
    ],
)
def test_what_is_wrong_with_a_host_is_said(
    host: str, python: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "ssh", SSH)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("FAR", str(tmp_path))
    write_program(tmp_path / "bare", f'#!/bin/sh\nexec {sys.executable} -E -S "$@"\n')
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "trainer.py").write_text("__version__ = '0.0.7'\n")
    write_program(tmp_path / "old", f'#!/bin/sh\nPYTHONPATH={tmp_path}/other exec {sys.executable} -S "$@"\n')
    named = str(tmp_path / python) if python in ("bare", "old") else python
    with pytest.raises(TrainerError, match=message):
        Connection(place_named(f"ssh:{host}", named), "run")


def test_a_missing_ssh_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrainerError, match=r"SSH's client is not installed here"):
        Connection(place_named("ssh:far"), "run")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--on", "ssh:-oProxyCommand=x"], "no such place"),
        (["--on", "slurm:x", "--python", "python3"], "--python names the interpreter of another machine"),
        (["--on", "slurm:x", "--send", "data"], "Slurm and Ray share this machine's files"),
        (["--on", "ssh:unknown", "train.epochs=none"], "train.epochs"),
        (["--on", "ssh:unknown"], "the host is unknown"),
    ],
)
def test_nothing_is_written_before_the_host_has_answered(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "bin" / "ssh", SSH)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    options = {words[index].removeprefix("--"): words[index + 1] for index in range(0, len(words) - 1, 2)}
    changes = [word for word in words if "=" in word and not word.startswith("ssh")]
    order = Order(
        ("digits", *changes), os.getpid(), on=options["on"], python=options.get("python"),
        sent=(options["send"],) if "send" in options else (),
    )  # fmt: skip
    with pytest.raises(TrainerError, match=message):
        relay(order, lambda attempt: None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--send", "data"], "--send and --python need --on ssh:HOST"),
        (["--on", "ssh:a", "--in-process"], "--in-process trains in this process"),
        (["--on", "ssh:a", "--dry-run"], "--dry-run creates no run"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "digits", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_parcel_holds_code_and_what_is_named(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(SCRIPTED, project, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pictures/a.txt", "pictures/b.py", "runs/old/task.py", "venv/lib/x.py", ".git/x.py", "parts/net.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / "venv" / "pyvenv.cfg").touch()
    (tmp_path / "elsewhere").mkdir()
    loaded = load(str(project / "config.yaml"), [f"data.root={project}/pictures"])
    package = str(Path(trainer.__file__).resolve().parent)
    about = {"folder": "/far/run", "data": "/far/sent", "package": package}
    parcel = parcel_of(loaded, [str(project / "pictures"), str(tmp_path / "elsewhere")], about, is_remote=True)
    code = "/far/run/code/0/project"
    assert parcel.code == {f"{code}/{name}": project / name for name in ("options.py", "task.py", "parts/net.py")}
    copy, other = parcel.data
    assert copy.startswith("/far/sent/") and copy.endswith("/pictures") and parcel.links == {f"{code}/pictures": copy}
    assert f'"{code}/task.py:Scripted"' in parcel.config and f"root: {copy} " in parcel.config
    assert other.endswith("/elsewhere")
    shared = parcel_of(loaded, [], about, is_remote=False)
    assert shared.config == dump_resolved(loaded) and not shared.code
    with pytest.raises(TrainerError, match="no such file or folder to send"):
        parcel_of(loaded, ["nothing"], about, is_remote=True)


@pytest.mark.full
def test_data_is_transferred_once_and_the_config_points_to_the_copy(far: Far) -> None:
    data = far.commands.folder / "pictures"
    data.mkdir()
    (data / "a.txt").write_text("a")
    (data / "b.txt").write_text("b")
    words = "--send", "pictures", "data.root=pictures"
    assert ended(far.run("finish", *words)).returncode == 0
    copies = list(far.folder.glob("cache/sent/*/pictures/*.txt"))
    assert sorted(copy.read_text() for copy in copies) == ["a", "b"]
    before = {copy: copy.stat().st_ino for copy in copies}
    (data / "b.txt").unlink()
    assert ended(far.run("finish", *words)).returncode == 0
    assert {copy: copy.stat().st_ino for copy in before if copy.exists()} == {
        copy: node for copy, node in before.items() if copy.name == "a.txt"
    }
    assert str(data) in (far.commands.folder / "runs/scripted/config-1.yaml").read_text()


def test_frames_arrive_in_any_pieces(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(3_000_000))
    text = b"Welcome\n" + MARK + frame({"a": 1}) + b"".join(file_frames(tmp_path / "file", "sub/copy"))
    for piece in (1 << 16, len(text)):
        reader, found = FrameReader(after_mark=True), list[tuple[dict[str, Any], bytes]]()
        for at in range(0, len(text), piece):
            found += reader.feed(text[at : at + piece])
        assert found[0] == ({"a": 1}, b"")
        for header, payload in found[1:]:
            take_file(tmp_path / "other", header, payload)
        copy = tmp_path / "other" / "sub" / "copy"
        assert copy.read_bytes() == (tmp_path / "file").read_bytes()
        assert copy.stat().st_mtime_ns == (tmp_path / "file").stat().st_mtime_ns


def test_paths_are_replaced_whole(tmp_path: Path) -> None:
    pairs = [["/home/me/cells", "/far/code/0/cells"], ["/home/me/cells/data", "/far/sent/data"]]
    text = 'task: /home/me/cells/task.py:Cells  # /home/me/cells2/x:1\nroot: "/home/me/cells/data"\nx: a/home/me/cells'
    moved = there(text, pairs)
    assert moved == (
        'task: /far/code/0/cells/task.py:Cells  # /home/me/cells2/x:1\nroot: "/far/sent/data"\nx: a/home/me/cells'
    )
    assert here(moved, pairs) == text
    record = RemoteAttempt(1, "ssh:far", None, "/far", 0.0, pairs)
    record.write(create_run_at(tmp_path / "run"))
    assert as_here(RunPaths(tmp_path / "run"), {"task": "/far/code/0/cells/task.py"}) == {
        "task": "/home/me/cells/task.py"
    }


def test_a_line_of_this_machine_that_a_kill_cut_is_not_counted(tmp_path: Path) -> None:
    paths = create_run_at(tmp_path / "run")
    record = RemoteAttempt(1, "ssh:far", None, "/far", time.time())
    mirror = Mirror(paths, record, {})
    mirror.begin()
    mirror.grow("events.jsonl", 0, b'{"kind":"log"}\n')
    mirror.say(LogEvent("reconnected"))
    assert mirror.received("events.jsonl") == 15 and len(read_events(paths.events)) == 2
    os.truncate(paths.events, paths.events.stat().st_size - 5)
    again = Mirror(paths, record, {})
    assert again.received("events.jsonl") == 15 == paths.events.stat().st_size
    with pytest.raises(TrainerError, match="unexpected bytes"):
        again.grow("events.jsonl", 0, b"x")
    for name in ("../x", "/etc/x", "run.lock", "events.jsonl"):
        with pytest.raises(TrainerError, match="not part of a run"):
            again.take({"put": name, "at": 0, "modified": 1}, b"x")


def test_a_run_is_unfinished_until_all_has_arrived(tmp_path: Path) -> None:
    """A scheduler that takes its machine away ends the attempt, and continues it as the next one."""
    paths = create_run_at(tmp_path / "run")
    record = RemoteAttempt(1, "slurm:gpu", None, "/far", 0.0, has_started=True)
    record.write(paths)
    with EventWriter(paths.events, attempt=1, process_start=0.0) as write:
        write(EndEvent("interrupted", 143, 3))
    paths.config(2).touch()
    assert unfinished(paths) == record
    with pytest.raises(TrainerError, match=r"this run still trains[\s\S]*on slurm:gpu[\s\S]*trainer run --resume"):
        prepare(Order((), os.getpid(), resume=str(paths.root)))
    record.is_over = True
    record.write(paths)
    assert unfinished(paths) is None and how_to_continue(paths) is None


@pytest.mark.parametrize("place", ["ssh:", "slurm:", "gpu1", "ssh:a b", "ray:x,ssh:y", "ssh:a,b"])
def test_an_unknown_place_is_refused(place: str) -> None:
    with pytest.raises(TrainerError, match=r"no such place[\s\S]*ssh:HOST, slurm:PARTITION"):
        place_named(place)


DIGITS = (
    "train.epochs=null", "schedule.name=constant", "schedule.warmup_fraction=0", "data.batch_size=100",
    "validate.every_steps=2", "threads=1",
)  # fmt: skip


def results(folder: Path, run: str) -> dict[str, float]:
    """The last metrics of the validation and of the test of a run."""
    read = open_run(folder / "runs" / run)
    assert read.end is not None and read.end.status == "done", read.end
    return {name: series.value[-1] for name, series in read.metrics.items() if not name.startswith("train")}


@pytest.mark.full
def test_checkpoints_come_back_and_a_run_moves_between_machines(far: Far) -> None:
    """Trained here, continued there, continued here: as one that never moved."""
    commands, folder = far.commands, far.commands.folder
    assert commands.finish("run", "digits", *DIGITS, "train.steps=6", "--name", "still").returncode == 0
    assert commands.finish("run", "digits", *DIGITS, "train.steps=2", "--name", "moved").returncode == 0
    on = "--on", "ssh:far", *HERE
    done = commands.finish("run", "--resume", "moved", "train.steps=4", *on)
    assert done.returncode == 0, done.stderr
    paths = RunPaths(folder / "runs" / "moved")
    latest = paths.pointed("latest")
    assert latest is not None and latest.name == "step-4" and not far.folders()
    assert cli.main(["checkpoint", "verify", str(paths.root)]) == 0
    assert commands.finish("run", "--resume", "moved", "train.steps=6").returncode == 0
    assert results(folder, "moved") == results(folder, "still")


@pytest.mark.full
@pytest.mark.skipif(bool(missing_commands()), reason=f"Slurm is not installed: no {', '.join(missing_commands())}")
def test_a_run_trains_on_slurm(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("slurm") / "cluster"
    with SlurmCluster(root) as cluster:
        commands.environment = {**commands.environment, "SLURM_CONF": str(cluster.config)}
        refused = commands.script("loop", "--on", "slurm:nowhere")
        assert "no such partition" in ended(refused).stderr and not (commands.folder / "runs").exists()
        _trains_elsewhere(commands, "slurm:batch")
        _waits_and_is_withdrawn(commands, "slurm:batch")


@pytest.mark.full
def test_a_run_trains_on_ray(commands: Commands) -> None:
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        _trains_elsewhere(commands, "ray:auto")
        _waits_and_is_withdrawn(commands, "ray:auto")
    finally:
        ray.shutdown()


def _trains_elsewhere(commands: Commands, place: str, *options: str, exit_code: int = 143) -> None:
    """A run trains there, loses its relay, is continued and interrupted."""
    process = commands.script("loop", "--on", place, *options)
    commands.event("metric")
    worker = int(commands.event("run")["pid"])
    paths = RunPaths(commands.folder / "runs" / "scripted")
    lock = read_lock(paths)
    assert lock is not None and lock.pid != worker
    os.kill(lock.pid, signal.SIGKILL)
    assert f"It trains on {place}" in ended(process).stderr and process_is_alive(worker)
    known = len(commands.events())
    process = commands.start("run", "--resume", "scripted")
    eventually(lambda: len(commands.events()) > known + 20)
    process.send_signal(signal.SIGINT)
    assert ended(process).returncode == exit_code
    steps = [event["step"] for event in commands.events() if event["kind"] == "metric"]
    assert in_order(steps) and commands.events()[-1]["status"] == "interrupted"
    assert not (commands.folder / "runs" / ".remote").exists()


def _waits_and_is_withdrawn(commands: Commands, place: str) -> None:
    """A run that waits for the processors of another one is withdrawn by Ctrl-C."""
    threads = f"threads={os.cpu_count() if 'slurm' in place else 1}"
    first = commands.script("loop", "--on", place, "--name", "first", threads)
    commands.event("metric", "runs/first")
    second = commands.script("loop", "--on", place, "--name", "second", threads)
    commands.event("phase", "runs/second", name="queue", state="started")
    assert open_run(commands.folder / "runs" / "second").status == "running"
    second.send_signal(signal.SIGTERM)
    assert ended(second).returncode == 143
    assert commands.events("runs/second")[-1]["reason"] == "interrupted before training began"
    ask(RunPaths(commands.folder / "runs" / "first"), "stop")
    assert ended(first).returncode == 0


SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@pytest.mark.full
@pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="OpenSSH's server or client is not installed")
def test_a_run_trains_through_a_real_ssh_server(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("sshd")
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / name)], check=True)
    shutil.copy(root / "client.pub", root / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (root / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {root}/host\nAuthorizedKeysFile {root}/authorized\n"
        f"PidFile {root}/pid\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        f"SetEnv PYTHONPATH={commands.environment['PYTHONPATH']} TRAINER_CACHE_DIR={root}/cache\n"
    )
    (root / "ssh_config").write_text(
        f"Host far\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n  IdentityFile {root}/client\n"
        f"  IdentitiesOnly yes\n  StrictHostKeyChecking no\n  UserKnownHostsFile {root}/known\n  LogLevel ERROR\n"
    )
    program = root / "bin" / "ssh"  # ssh reads the configuration of the user, which the test must not touch
    write_program(program, f'#!/bin/sh\nexec {shutil.which("ssh")} -F {root}/ssh_config "$@"\n')
    path = f"{program.parent}:{commands.environment['PATH']}"
    commands.environment = {**commands.environment, "PATH": path}
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd requires it
    assert SSHD is not None
    with open(root / "log", "wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(root / "sshd_config")], stdout=log, stderr=log)
    try:
        eventually(lambda: b"listening" in (root / "log").read_bytes())
        _trains_elsewhere(commands, "ssh:far", *HERE, exit_code=130)
        assert not list((root / "cache" / "remote").glob("*"))
    finally:
        server.terminate()
        server.wait()
