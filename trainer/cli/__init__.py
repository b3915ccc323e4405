"""The `trainer` command. `main` finds the verb and imports its file alone; nothing heavy is imported before it must."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from trainer import TrainerError, __version__
from trainer.cli.exit_codes import DONE, FAILURE, INTERRUPTED, USER_MISTAKE
from trainer.cli.output import Outputs, abandon, paint_help, print_error
from trainer.cli.plugins import leave_out_plugins
from trainer.cli.verbs import GROUPS, VERBS, group_help, overview, verb_of, verbs_in

if TYPE_CHECKING:
    import argparse


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
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has gone
        abandon(sys.stdout)
        return FAILURE
    except Exception as error:
        if isinstance(error, TrainerError):
            mistake: str | None = str(error)
        else:
            from trainer.configs.own import own_mistake

            mistake = own_mistake(error)
        if mistake is None:
            raise
        if "--debug" in words:
            import traceback

            traceback.print_exc()
        print_error(mistake)
        return USER_MISTAKE


def _dispatch(words: list[str]) -> int:
    if not words:
        paint_help(sys.stderr, overview(__version__))
        return USER_MISTAKE
    first = words[0]
    if first in ("--help", "-h", "help"):
        if words[1:] and words[-1] in GROUPS:
            paint_help(sys.stdout, group_help(words[-1]))
            return DONE
        if asked := verb_of(words[1:]):
            return _run_verb(asked[0], ["--help"])
        paint_help(sys.stdout, overview(__version__))
        return DONE
    if first in ("--version", "-V"):
        print(f"trainer {__version__}")
        return DONE
    if found := verb_of(words):
        return _run_verb(*found)
    if first in GROUPS:
        second = next((word for word in words[1:] if not word.startswith("-")), None)
        if second is None:
            paint_help(sys.stdout, group_help(first))
            return DONE
        from trainer.configs.problems import did_you_mean

        family = verbs_in(first)
        raise TrainerError(
            f"no such verb: {first} {second}{did_you_mean(second, family)}", expected=f"one of: {', '.join(family)}"
        )
    raise _no_such_verb(first, words[1:])


def _no_such_verb(word: str, rest: list[str]) -> TrainerError:
    """The error for a word that is no verb: what it is called here, where other tools call it so, or the nearest."""
    import shlex

    from trainer.configs.foreign import command_for
    from trainer.configs.problems import did_you_mean

    if (command := command_for(word, shlex.join(rest))) is not None:
        return TrainerError(f"no such verb: {word}", hint=f"Here it is `{command}`.")
    return TrainerError(f"no such verb: {word}{did_you_mean(word, [*VERBS, *GROUPS])}")


def _run_verb(name: str, words: list[str]) -> int:
    """Parse the verb's own arguments and run it. Each verb's file has `describe(parser)` and `execute(arguments)`."""
    verb, parser = verb_parser(name)
    parsed = parser.parse_intermixed_args(words)
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise TrainerError(
            "the working directory is gone", found="it was deleted or moved", hint="Go to one that is there with cd."
        ) from error
    code: int = verb.execute(parsed)
    return code


def verb_parser(name: str) -> tuple[Any, argparse.ArgumentParser]:
    """A verb's module, imported now, and the parser of its arguments."""
    import argparse
    import importlib

    leave_out_plugins()
    verb = importlib.import_module(f"trainer.cli.verbs.{name.replace(' ', '_')}")

    class Parser(argparse.ArgumentParser):
        """Reports the user's mistakes as all others are reported."""

        def _print_message(self, message: str, file: Any = None) -> None:
            paint_help(sys.stdout if file is None else file, message)

        def error(self, message: str) -> NoReturn:
            hint = getattr(verb, "HINT", "")
            if hint and "unrecognized arguments" in message:
                hint = _key_for_option(message) or hint
            raise TrainerError(message, hint=f"{hint}See `trainer {name} --help`.")

    parser = Parser(
        prog=f"trainer {name}",
        description=f"{VERBS[name][0].upper()}{VERBS[name][1:]}.",
        epilog=f"examples:\n{verb.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.describe(parser)
    parser.add_argument("--debug", action="store_true", help="add the traceback to an error")
    return verb, parser


def _key_for_option(message: str) -> str:
    """What sets the value that other tools have an option for, of those that a message names; "" for others."""
    from trainer.configs.foreign import KEYS

    words = [word.lstrip("-").partition("=")[0].replace("-", "_") for word in message.split() if word.startswith("--")]
    found = next((word for word in words if word in KEYS), None)
    return f"Here it is {KEYS[found]}, without dashes: train.epochs=3. " if found else ""
