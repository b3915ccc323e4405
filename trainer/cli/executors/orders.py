"""The folder through which a command hands orders to its pilots, on a file system that all machines share.

owner             rewritten by the command every second; without it, the pilots end. LASTING: it isn't rewritten, and
                  the pilots end when no order is left
N.order           an order that no pilot has taken
N.taken-P         the order, taken by pilot P: renaming a file succeeds for only one of several processes
N.end             the command has requested the end of the order's run
N.done            the run has ended; contains the reason why it could not be started, or nothing

Deleting the folder ends all pilots.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from trainer.cli.order import Order
from trainer.rundir import replacing, write_error

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_BETWEEN_BEATS = 1.0
LAST_CHARACTERS = 2000
LASTING = "lasting"
SECONDS_WITHOUT_OWNER = 60.0
"""Seconds without a heartbeat of the command until its pilots end; a file system may show changes seconds late."""


def last_printed(folder: Path) -> str:
    """The end of the pilots' output, from pilot-N.log next to their orders."""
    texts = [log.read_text(encoding="utf-8", errors="replace") for log in sorted(folder.glob("pilot-*.log"))]
    return "\n".join(texts)[-LAST_CHARACTERS:].strip()


class Orders:
    """The folder of orders, as the command and the pilots use it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._beat_at, self._sign, self._moved_at = 0.0, "", time.monotonic()

    # --- the command --------------------------------------------------------------------------------------------------

    def create(self, *, is_lasting: bool = False) -> None:
        """Replaces the folder, which ends the pilots of an earlier command.

        Args:
            is_lasting: the pilots carry out their orders without this command.

        Raises:
            TrainerError: it can't be written.
        """
        self.delete()
        try:
            self.root.mkdir(parents=True)
            if is_lasting:
                self._write("owner", LASTING)
            else:
                self.beat()
        except OSError as error:
            raise write_error(self.root, error) from error

    def delete(self) -> None:
        """Ends the pilots."""
        shutil.rmtree(self.root, ignore_errors=True)

    def beat(self) -> None:
        """Shows that the command is alive."""
        now = time.monotonic()
        if now - self._beat_at >= SECONDS_BETWEEN_BEATS:
            self._beat_at = now
            self._write("owner", str(time.time_ns()))

    def put(self, number: int, order: Order) -> None:
        """Hands out an order."""
        self._write(f"{number}.order", order.to_json())

    def withdraw(self, number: int) -> bool:
        """Takes back an order; false if a pilot has it."""
        try:
            (self.root / f"{number}.order").unlink()
        except FileNotFoundError:
            return False
        return True

    def ask_to_end(self, number: int) -> None:
        """Asks the pilot that has the order to end its run."""
        (self.root / f"{number}.end").touch()

    def result(self, number: int) -> str | None:
        """Why the run could not be started, empty if it was; None while the order isn't done."""
        try:
            return (self.root / f"{number}.done").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def is_taken(self, number: int) -> bool:
        """Whether a pilot has the order, or had it."""
        return any(self.root.glob(f"{number}.taken-*"))

    def put_back(self, number: int, living: set[int]) -> None:
        """Hands out an order again if its pilot is not in `living`."""
        for file in self.root.glob(f"{number}.taken-*"):
            if int(file.suffix.removeprefix(".taken-")) not in living and self.result(number) is None:
                os.replace(file, self.root / f"{number}.order")

    # --- a pilot ------------------------------------------------------------------------------------------------------

    def is_abandoned(self) -> bool:
        """Whether the folder is deleted, or the command shows no sign of life."""
        try:
            sign = (self.root / "owner").read_text(encoding="ascii")
        except OSError:
            return True
        if sign == LASTING:
            return False
        now = time.monotonic()
        if sign != self._sign:
            self._sign, self._moved_at = sign, now
        return now - self._moved_at > SECONDS_WITHOUT_OWNER

    def take(self, pilot: int) -> tuple[int, Order] | None:
        """Takes an order: one that an earlier pilot with the same number left, or else a new one; None without one."""
        mine = f".taken-{pilot}"
        left = [file for file in self.root.glob(f"*{mine}") if not file.with_suffix(".done").exists()]
        for file in (*left, *sorted(self.root.glob("*.order"), key=lambda file: int(file.stem))):
            taken = file.with_suffix(mine)
            try:
                os.replace(file, taken)
                return int(taken.stem), Order.from_json(taken.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue  # another pilot was faster
        return None

    def is_carried_out(self) -> bool:
        """Whether no further order will come: the folder outlives its command, and every order is done."""
        if not any(self.root.glob("*.order")) and (self.root / "owner").exists():
            return (self.root / "owner").read_text(encoding="ascii") == LASTING
        return False

    def is_to_end(self, number: int) -> bool:
        """Whether the command has requested the end of this run."""
        return (self.root / f"{number}.end").exists()

    def finish(self, number: int, mistake: str) -> None:
        """Records that the run has ended."""
        if self.root.exists():  # otherwise no command waits for it
            self._write(f"{number}.done", mistake)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _write(self, name: str, text: str) -> None:
        with replacing(self.root / name) as aside:
            aside.write_text(text, encoding="utf-8")
