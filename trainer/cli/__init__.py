"""The `trainer` command. `main` finds the subcommand and imports only its file; heavy imports come as late as
possible.
"""

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
    """Runs one command line (without the program's name); returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with Outputs():
        return _carry_out(words)


def _carry_out(words: list[str]) -> int:
    try:
        code = _dispatch(words)
        if sys.stdout is not None:
            sys.stdout.flush()  # flush here, so that a full disk is an error message and not a traceback
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output has exited (a closed pipe)
        abandon(sys.stdout)
        return FAILURE
    except Exception as error:
        if isinstance(error, TrainerError):
            mistake: str | None = str(error)
        else:
            from trainer.configs.custom_class import own_mistake

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
            f"unknown command: {first} {second}{did_you_mean(second, family)}", expected=f"one of: {', '.join(family)}"
        )
    raise _no_such_verb(first, words[1:])


def _no_such_verb(word: str, rest: list[str]) -> TrainerError:
    """The error for an unknown command, with the equivalent of another tool's command or the nearest name."""
    import shlex

    from trainer.configs.foreign import command_for
    from trainer.configs.problems import did_you_mean

    if (command := command_for(word, shlex.join(rest))) is not None:
        return TrainerError(f"unknown command: {word}", hint=f"The equivalent is `{command}`.")
    return TrainerError(f"unknown command: {word}{did_you_mean(word, [*VERBS, *GROUPS])}")


def _run_verb(name: str, words: list[str]) -> int:
    """Parses the arguments of a subcommand and runs it. Each file in `verbs` has `describe(parser)` and
    `execute(arguments)`.
    """
    verb, parser = verb_parser(name)
    parsed = parser.parse_intermixed_args(words)
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise TrainerError(
            "the working directory does not exist",
            found="it was deleted or moved",
            hint="Change to an existing directory with cd.",
        ) from error
    code: int = verb.execute(parsed)
    return code


def verb_parser(name: str) -> tuple[Any, argparse.ArgumentParser]:
    """Imports the module of a subcommand; returns it with the parser of its arguments."""
    import argparse
    import importlib

    leave_out_plugins()
    verb = importlib.import_module(f"trainer.cli.verbs.{name.replace(' ', '_').replace('-', '_')}")

    class Parser(argparse.ArgumentParser):
        """Reports argument errors in the same form as all other errors."""

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
    """Returns the config key for another tool's option in an error message; "" if none matches."""
    from trainer.configs.foreign import KEYS

    words = [word.lstrip("-").partition("=")[0].replace("-", "_") for word in message.split() if word.startswith("--")]
    found = next((word for word in words if word in KEYS), None)
    return f"The equivalent is {KEYS[found]}, without dashes: train.epochs=3. " if found else ""
