"""Matches detections and truths with COCO's greedy rule (`evaluateImg` of pycocotools), for all groups at once.

In order of decreasing score, a detection is matched with the unmatched truth of its group with the largest overlap
above the threshold, the last of equal ones. Ignored truths (crowds, and those outside the area range) come second,
independent of the overlap; crowds can be matched repeatedly. A detection matched with an ignored truth, or unmatched
and outside the area range, is ignored.

Only detections with a candidate are processed, the n-th of each group in the same step. The number of steps is the
maximum of all groups, limited by the maximum number of detections.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from trainer.metrics.coco.columns import Booleans, Floats, Integers
from trainer.metrics.coco.groups import Grouped
from trainer.metrics.coco.overlaps import Pairs
from trainer.metrics.coco.settings import Settings

BLOCK = 1 << 14
"""Pairs per block, to limit memory to a few megabytes; the speed is the same from 2^12 to 2^22."""


@dataclass(frozen=True, eq=False)
class Matches:
    """The result for detections and truths.

    Args:
        matched, ignored: bool [areas, thresholds, detections].
        counts: bool [areas, truths]: the truths that are not ignored.
    """

    matched: Booleans
    ignored: Booleans
    counts: Booleans


def match(data: Grouped, pairs: Pairs, settings: Settings) -> Matches:
    ranges = np.array([limits for _, limits in settings.areas])
    counts = ~data.truths.is_ignored & ~_outside(data.truths.area, ranges)
    shape = (len(data.detections), len(ranges), len(settings.iou_thresholds))
    matched, ignored = np.zeros(shape, bool), np.zeros(shape, bool)
    for first, last in _blocks(data.group[pairs.detection]):
        part = Pairs(pairs.detection[first:last], pairs.truth[first:last], pairs.overlap[first:last])
        _match_block(data, part, settings, counts.T, matched, ignored)
    ignored |= ~matched & _outside(data.detections.area, ranges).T[:, :, None]
    by_area = [np.ascontiguousarray(flags.transpose(1, 2, 0)) for flags in (matched, ignored)]
    return Matches(by_area[0], by_area[1], counts)


def _outside(area: Floats, ranges: Floats) -> Booleans:
    """Whether each area lies outside each range, bool [areas, N]."""
    return (area < ranges[:, :1]) | (area > ranges[:, 1:])


def _blocks(group: Integers) -> list[tuple[int, int]]:
    """(first, last + 1) pair of each block; a block contains whole groups."""
    begins = np.append(np.flatnonzero(np.diff(group, prepend=-1)), len(group))
    cuts = np.unique(np.searchsorted(begins, np.arange(0, len(group), BLOCK)))
    edges = [*begins[cuts].tolist(), len(group)]
    return [(first, last) for first, last in itertools.pairwise(edges) if last > first]


def _match_block(
    data: Grouped, pairs: Pairs, settings: Settings, counts: Booleans, matched: Booleans, ignored: Booleans
) -> None:
    """Matches the pairs of some groups, and writes the result to `matched` and `ignored`.

    `counts` is bool [truths, areas].
    """
    turn = _turns(data.group, pairs.detection)
    order = np.lexsort((pairs.truth, pairs.overlap, pairs.detection, turn))
    detection, truth, overlap, turn = pairs.detection[order], pairs.truth[order], pairs.overlap[order], turn[order]
    starts = np.flatnonzero(np.diff(detection, prepend=-1))
    lengths: Integers = np.diff(starts, append=len(detection))
    # A detection's best candidate is its last.
    place: Integers = np.arange(1, 1 + len(detection)) - np.repeat(starts, lengths)
    second = lengths.max()  # truths that are not ignored come first
    wish = place[:, None] + second * counts[truth]
    enough = overlap[:, None] >= np.minimum(settings.iou_thresholds, 1 - 1e-10)
    truths, seat = np.unique(truth, return_inverse=True)
    endless = data.truths.crowd[truth]
    taken = np.zeros((len(truths), *matched.shape[1:]), bool)
    unnamed = data.truths.annotation == 0 if data.truths.annotation is not None else np.zeros(len(data.truths), bool)
    edges = np.searchsorted(turn, np.arange(turn[-1] + 2))
    firsts = np.searchsorted(starts, edges)
    for now, then, begin, end in zip(edges, edges[1:], firsts, firsts[1:], strict=False):
        pair = slice(now, then)
        able = enough[pair, None, :] & ~(taken[seat[pair]] & ~endless[pair, None, None])
        wishes = np.where(able, wish[pair, :, None], 0)
        best = np.maximum.reduceat(wishes, starts[begin:end] - now, axis=0)
        chosen = able & (wishes == np.repeat(best, lengths[begin:end], axis=0))
        taken[seat[pair]] |= chosen
        rows = detection[starts[begin:end]]
        matched[rows] = best > 0
        ignored[rows] = (best > 0) & (best <= second)
        if unnamed[truth[pair]].any():
            nothing = chosen & unnamed[truth[pair], None, None]
            matched[rows] &= ~np.logical_or.reduceat(nothing, starts[begin:end] - now, axis=0)


def _turns(group: Integers, detection: Integers) -> Integers:
    """For each pair, how many detections with candidates come before its own in the group."""
    is_next = np.diff(detection, prepend=-1) > 0
    number = np.cumsum(is_next) - 1
    is_first = np.diff(group[detection], prepend=-1) > 0
    return number - np.maximum.accumulate(np.where(is_first, number, 0))
