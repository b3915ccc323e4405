"""`trainer completion`: prints a script for shell completion of commands, options, recipes and run names."""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "fish")

EXAMPLES = """\
  trainer completion bash > ~/.local/share/bash-completion/completions/trainer
  source <(trainer completion zsh)                  in ~/.zshrc, after compinit
  trainer completion fish > ~/.config/fish/completions/trainer.fish
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="shell of the script")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.completion import script

    print(script(arguments.shell), end="")
    return 0
