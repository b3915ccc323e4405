"""Rotations, shifts, scales, shears and perspective, relative to the center of the image."""

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
    """Rotates by a random angle between -`degrees` and `degrees`; keeps the size, corners are lost."""

    degrees: float

    def matrix(self, size: Size, draws: ItemDraws) -> np.ndarray:
        return about_the_middle(rotation(draws.uniform(-self.degrees, self.degrees)), size)


@dataclass
class Affine(Warp):
    """Scales, shears, rotates and shifts in one step.

    Args:
        scale: minimum and maximum scale factor; below 1 the image gets smaller. Its logarithm is uniform.
        shift: maximum shift in either direction, as a fraction of width and height.
        degrees: maximum rotation in either direction.
        shear: maximum shear in degrees, in either direction.
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
    """Moves each corner inwards by at most `distortion` times half of the width and height."""

    distortion: float = 0.5

    def matrix(self, size: Size, draws: ItemDraws) -> np.ndarray:
        height, width = size
        corners = np.array([[0.0, 0], [width, 0], [width, height], [0, height]])
        inwards = np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1]])
        most = np.array([width, height]) * self.distortion / 2
        drawn = np.array([[draws.uniform(), draws.uniform()] for _ in corners])
        return through(corners, corners + inwards * most * drawn)


def rotation(degrees: float) -> np.ndarray:
    """The rotation by an angle, counterclockwise as displayed."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[cosine, sine, 0], [-sine, cosine, 0], [0, 0, 1]])


def about_the_middle(matrix: np.ndarray, size: Size) -> np.ndarray:
    """The map with the center of an image of `size` as its origin."""
    x, y = size[1] / 2, size[0] / 2
    return translation(x, y) @ matrix @ translation(-x, -y)


def through(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The projective map from four points [4, 2] to four others (Heckbert 1989, section 2.2.2)."""
    rows = []
    for (x, y), (u, v) in zip(before, after, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    solution = np.linalg.solve(np.array(rows, np.float64), after.reshape(-1))
    return np.append(solution, 1.0).reshape(3, 3)
