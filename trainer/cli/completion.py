"""Shell completion scripts, generated from the commands' own parsers. Run names are looked up by the shell."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from typing import Any

from trainer.cli import verb_parser
from trainer.cli.find import RUNS
from trainer.cli.gallery import recipe_names
from trainer.cli.verbs import GROUPS, VERBS, verbs_in


@dataclass(frozen=True)
class Completed:
    """The completions of a command: its options, fixed words, and whether it accepts run names."""

    options: tuple[str, ...]
    words: tuple[str, ...]
    has_runs: bool


def completed(name: str) -> Completed:
    """The completions of a command."""
    _, parser = verb_parser(name)
    actions: list[Any] = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    metavars = " ".join(str(action.metavar or "") for action in actions)
    choices = [str(choice) for action in actions if not action.option_strings for choice in action.choices or ()]
    return Completed(
        tuple(option for action in actions for option in action.option_strings if option.startswith("--")),
        (*choices, *(recipe_names() if "RECIPE" in metavars else ())),
        "RUN" in metavars.replace("|", " ").split() or "SOURCE" in metavars.split(),
    )


def script(shell: str) -> str:
    """The completion script of a shell."""
    return _fish() if shell == "fish" else _bash(is_zsh=shell == "zsh")


def _first_words() -> list[str]:
    return list(dict.fromkeys([*(name for name in VERBS if " " not in name), *GROUPS]))


def _bash(*, is_zsh: bool) -> str:
    """The script for bash, which zsh also understands after `bashcompinit`."""
    cases = []
    for name in VERBS:
        found = completed(name)
        runs = f" $(command ls -1 {RUNS} 2>/dev/null)" if found.has_runs else ""
        cases.append(f"    {shlex.quote(name)})\n      options={shlex.quote(' '.join(found.options))}\n"
                     f'      words="{" ".join(found.words)}{runs}" ;;')  # fmt: skip
    groups = "\n".join(
        f'      {group}) COMPREPLY=($(compgen -W {shlex.quote(" ".join(verbs_in(group)))} -- "$current")); return ;;'
        for group in GROUPS
    )
    lines = "\n".join(cases)
    grouped = "|".join(GROUPS)
    head = "autoload -Uz bashcompinit && bashcompinit\n" if is_zsh else ""
    return f"""{head}_trainer() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" verb="${{COMP_WORDS[1]}}" options="" words=""
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    COMPREPLY=($(compgen -W {shlex.quote(" ".join([*_first_words(), "--help", "--version"]))} -- "$current"))
    return
  fi
  if [[ $COMP_CWORD -eq 2 && "$current" != -* ]]; then
    case "$verb" in
{groups}
    esac
  fi
  case "$verb" in {grouped}) verb="$verb ${{COMP_WORDS[2]}}" ;; esac
  case "$verb" in
{lines}
  esac
  if [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _trainer trainer
"""


def _fish() -> str:
    first = _first_words()
    lines = ["complete -c trainer -n __fish_use_subcommand -f -a " + shlex.quote(" ".join(first))]
    for group in GROUPS:
        seconds = " ".join(verbs_in(group))
        condition = f"__fish_seen_subcommand_from {group}; and not __fish_seen_subcommand_from {seconds}"
        lines.append(f"complete -c trainer -n {shlex.quote(condition)} -f -a {shlex.quote(seconds)}")
    for name in VERBS:
        found = completed(name)
        condition = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        for option in found.options:
            lines.append(f"complete -c trainer -n {shlex.quote(condition)} -l {option.removeprefix('--')}")
        words = " ".join(found.words) + (f" (command ls -1 {RUNS} 2>/dev/null)" if found.has_runs else "")
        if words.strip():
            lines.append(f"complete -c trainer -n {shlex.quote(condition)} -a {shlex.quote(words.strip())}")
    return "\n".join(lines) + "\n"
