"""`trainer runs tag`: adds tags and a note to a run, which `trainer runs list` shows."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer runs tag digits-3 baseline paper
  trainer runs tag digits-3 --note "half the learning rate, longer warm-up"
  trainer runs tag digits-3 paper --remove
  trainer runs tag digits-3                     print its tags and its note
  trainer runs list --tag baseline
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory, or the name of a run in runs/")
    parser.add_argument("tags", nargs="*", metavar="TAG", help="tags, words without spaces; none: print the run's tags")
    parser.add_argument("--note", metavar="TEXT", help='replace the run\'s note with this text; "" deletes it')
    parser.add_argument("--remove", action="store_true", help="remove these tags")


def execute(arguments: argparse.Namespace) -> int:
    from trainer import TrainerError
    from trainer.cli.find import find_run
    from trainer.rundir import read_note, read_tags, write_note, write_tags

    paths = find_run(arguments.run)
    had, given = set(read_tags(paths)), set(arguments.tags)
    for tag in sorted(given):
        if not tag.strip() or any(character.isspace() or character == "," for character in tag):
            raise TrainerError("invalid tag", found=repr(tag), expected="a word without spaces and commas")
    if arguments.remove and (missing := given - had):
        raise TrainerError("the run has no such tag", where=paths.name, found=", ".join(sorted(missing)),
                           expected=", ".join(sorted(had)) or "no tag: it has none")  # fmt: skip
    if given:
        write_tags(paths, had - given if arguments.remove else had | given)
    if arguments.note is not None:
        write_note(paths, arguments.note)
    print(f"{paths.name}: {' '.join(read_tags(paths)) or 'no tags'}")
    if note := read_note(paths):
        print(note)
    return 0
