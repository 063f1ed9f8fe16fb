"""Interpolation of times as functions of parameters, from times at some points, by cubic radial functions.

It interpolates the model alone, without measurements, so rows held out of a fit stay unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[[Any], Any]
"""A function from a point of the unit box to the value of every row."""


class Surrogate:
    """Values of rows anywhere in the unit box, exact at the points where they were computed."""

    def __init__(self, function: Function, dimensions: int, *, scattered: int, seed: int = 0) -> None:
        self.function = function
        self.points: list[Any] = []
        self.values: list[Any] = []
        middle = np.full(dimensions, 0.5)
        self.learn(middle)
        for axis in range(dimensions):
            for end in (0.0, 1.0):
                self.learn(np.where(np.arange(dimensions) == axis, end, middle))
        random = np.random.default_rng(seed)
        strata = np.array([random.permutation(scattered) for _ in range(dimensions)]).T
        for row in (strata + random.random(strata.shape)) / max(scattered, 1):
            self.learn(row)
        self.renew()

    def learn(self, point: Any) -> Any:
        """Return the exact values at a point, which the next `renew` takes into account."""
        for known, values in zip(self.points, self.values, strict=True):
            if np.abs(known - point).max() < 1e-4:
                return values
        self.points.append(np.array(point))
        self.values.append(self.function(point))
        return self.values[-1]

    def renew(self) -> None:
        """Take all known points into account."""
        at = np.array(self.points)
        count, dimensions = at.shape
        distance = np.linalg.norm(at[:, None] - at[None], axis=2)
        tail = np.hstack([np.ones((count, 1)), at])
        zeros = np.zeros((dimensions + 1, dimensions + 1))
        matrix = np.block([[distance**3, tail], [tail.T, zeros]])
        right = np.vstack([np.array(self.values), np.zeros((dimensions + 1, len(self.values[0])))])
        solution = np.linalg.lstsq(matrix, right, rcond=1e-12)[0]
        self._at, self._weights, self._tail = at, solution[:count], solution[count:]

    def value(self, point: Any) -> Any:
        """The value of every row at a point."""
        distance = np.linalg.norm(self._at - point, axis=1)
        return distance**3 @ self._weights + self._tail[0] + point @ self._tail[1:]

    def slope(self, point: Any) -> Any:
        """Derivative of the value of every row along every axis, [rows, axes]."""
        apart = point - self._at
        distance = np.linalg.norm(apart, axis=1)
        return (self._weights.T * (3 * distance)) @ apart + self._tail[1:].T
