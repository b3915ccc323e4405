"""The `trainer` command. `main` finds the verb and imports its file alone; nothing heavy is imported before it must."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from trainer import TrainerError, __version__
from trainer.cli.exit_codes import DONE, FAILURE, INTERRUPTED, USER_MISTAKE
from trainer.cli.output import Outputs, abandon
from trainer.cli.plugins import leave_out_plugins
from trainer.cli.verbs import VERBS, overview, verb_of

MOST_LISTED = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name); returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with Outputs():
        return _carry_out(words)


def _carry_out(words: list[str]) -> int:
    try:
        code = _dispatch(words)
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a disk that takes nothing is an error and no traceback
        return code
    except TrainerError as error:
        if "--debug" in words:
            import traceback

            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        return USER_MISTAKE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has gone
        abandon(sys.stdout)
        return FAILURE


def _dispatch(words: list[str]) -> int:
    if not words:
        sys.stderr.write(overview(__version__))
        return USER_MISTAKE
    first = words[0]
    if first in ("--help", "-h", "help"):
        if asked := verb_of(words[1:]):
            return _run_verb(asked[0], ["--help"])
        sys.stdout.write(overview(__version__))
        return DONE
    if first in ("--version", "-V"):
        print(f"trainer {__version__}")
        return DONE
    if found := verb_of(words):
        return _run_verb(*found)
    family = [name.removeprefix(f"{first} ") for name in VERBS if name.startswith(f"{first} ")]
    if family:  # a verb of two words
        second = next((word for word in words[1:] if not word.startswith("-")), None)
        found_there = f"no such verb: {first} {second}{did_you_mean(second, family)}" if second else None
        raise TrainerError(
            found_there or f"`trainer {first}` takes another word", expected=f"one of: {', '.join(family)}"
        )
    raise TrainerError(f"no such verb: {first}{did_you_mean(first, VERBS)}")


def _run_verb(name: str, words: list[str]) -> int:
    """Parse the verb's own arguments and run it. Each verb's file has `describe(parser)` and `execute(arguments)`."""
    import argparse
    import importlib

    leave_out_plugins()
    verb = importlib.import_module(f"trainer.cli.verbs.{name.replace(' ', '_')}")

    class Parser(argparse.ArgumentParser):
        """Reports the user's mistakes as all others are reported."""

        def error(self, message: str) -> NoReturn:
            hint = getattr(verb, "HINT", "")
            raise TrainerError(message, hint=f"{hint}See `trainer {name} --help`.")

    parser = Parser(
        prog=f"trainer {name}",
        description=f"{VERBS[name][0].upper()}{VERBS[name][1:]}.",
        epilog=f"examples:\n{verb.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.describe(parser)
    parser.add_argument("--debug", action="store_true", help="add the traceback to an error")
    parsed = parser.parse_intermixed_args(words)
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise TrainerError(
            "the working directory is gone", found="it was deleted or moved", hint="Go to one that is there with cd."
        ) from error
    code: int = verb.execute(parsed)
    return code


def did_you_mean(word: str, known: object) -> str:
    """`, did you mean 'run'?` for the nearest of `known`, or what there is to choose from."""
    from difflib import get_close_matches

    names = [str(name) for name in known] if hasattr(known, "__iter__") else []
    near = get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    if near:
        return f", did you mean '{near[0]}'?"
    listed = ["…", *names[-MOST_LISTED:]] if len(names) > MOST_LISTED else names
    return f"; there are: {', '.join(listed)}" if names else ""
