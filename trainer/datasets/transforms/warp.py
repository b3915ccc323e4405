"""Rotations, shifts, scales, shears and changes of perspective, about the middle of the picture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.geometry import Size, translation
from trainer.datasets.transforms.transform import Warp

Range = tuple[float, float]


@dataclass
class Rotate(Warp):
    """Turned by an angle between -`degrees` and `degrees`; the size stays, corners are lost."""

    degrees: float

    def matrix(self, size: Size, draws: ItemDraws) -> np.ndarray:
        return about_the_middle(rotation(draws.uniform(-self.degrees, self.degrees)), size)


@dataclass
class Affine(Warp):
    """Scaled, sheared, turned and shifted at once.

    Args:
        scale: the least and the most; below 1 the picture gets smaller. Its logarithm is uniform.
        shift: the most each way, as a share of the width and the height.
        degrees: the most that it is turned, either way.
        shear: the most degrees by which upright lines lean, either way.
    """

    scale: Range = (1.0, 1.0)
    shift: float = 0.0
    degrees: float = 0.0
    shear: float = 0.0

    def matrix(self, size: Size, draws: ItemDraws) -> np.ndarray:
        scale = draws.log_uniform(*self.scale)
        angle = draws.uniform(-self.degrees, self.degrees)
        lean = math.tan(math.radians(draws.uniform(-self.shear, self.shear)))
        down, right = (draws.uniform(-self.shift, self.shift) * extent for extent in size)
        sheared = np.array([[scale, -lean * scale, 0], [0, scale, 0], [0, 0, 1]])
        return translation(right, down) @ about_the_middle(rotation(angle) @ sheared, size)


@dataclass
class Perspective(Warp):
    """Each corner moves inwards by up to `distortion` times half of the width and the height."""

    distortion: float = 0.5

    def matrix(self, size: Size, draws: ItemDraws) -> np.ndarray:
        height, width = size
        corners = np.array([[0.0, 0], [width, 0], [width, height], [0, height]])
        inwards = np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1]])
        most = np.array([width, height]) * self.distortion / 2
        drawn = np.array([[draws.uniform(), draws.uniform()] for _ in corners])
        return through(corners, corners + inwards * most * drawn)


def rotation(degrees: float) -> np.ndarray:
    """The map that turns by an angle, counter-clockwise as one looks at the picture."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[cosine, sine, 0], [-sine, cosine, 0], [0, 0, 1]])


def about_the_middle(matrix: np.ndarray, size: Size) -> np.ndarray:
    """The map with the middle of a picture of `size` where the origin was."""
    x, y = size[1] / 2, size[0] / 2
    return translation(x, y) @ matrix @ translation(-x, -y)


def through(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The projective map that takes four points [4, 2] to four others (Heckbert 1989, section 2.2.2)."""
    rows = []
    for (x, y), (u, v) in zip(before, after, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    solution = np.linalg.solve(np.array(rows, np.float64), after.reshape(-1))
    return np.append(solution, 1.0).reshape(3, 3)
