"""Cycles of a phase: every pipe runs its instructions in order, and slots alone permit overlap.

An instruction starts when its pipe is free, its inputs are written and its destination slot is free. A fresh write
takes the next slot; in-place and partial writes keep theirs. Slots are freed in order. `step` is that rule, and there
is no other.

Starting times are maxima of earlier ones plus constants, so the body of a loop is a matrix over (max, +), and n equal
tiles are its n-th power, by squaring. The same `step` runs on numbers (the plain schedule) and on rows of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilesim.program.buffers import Buffer
from tilesim.program.isa import PIPES
from tilesim.program.loop_nest import Nest, Step, TileRun
from tilesim.program.recorder import Phase

NEVER = -(1 << 60)
"""Minus infinity of the (max, +) algebra, in integers."""

Time = Any
"""A number of cycles, or a row of a matrix."""


@dataclass(frozen=True, slots=True)
class SlotState:
    """Places of a buffer in the state: when its current slot was written, and when each slot, newest first, is done."""

    written: int
    done: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PricedInstruction:
    """Instruction reduced to the facts that its time depends on."""

    pipe: int
    cycles: int
    reads: tuple[SlotState, ...]
    target: SlotState | None
    fresh: bool


def step(state: list[Time], priced: PricedInstruction, later: Callable[[Time, Time], Time]) -> Time:
    """Return the time at which an instruction ends; `state` advances to it."""
    start = state[priced.pipe]
    for slot in priced.reads:
        start = later(start, state[slot.written])
    target = priced.target
    if target is not None:
        if priced.fresh:
            start = later(start, state[target.done[-1]])
        else:
            start = later(start, later(state[target.written], state[target.done[0]]))
    end = start + priced.cycles
    state[priced.pipe] = end
    for slot in priced.reads:
        state[slot.done[0]] = later(state[slot.done[0]], end)
    if target is not None:
        done = target.done
        if priced.fresh:
            for newer, older in zip(reversed(done[:-1]), reversed(done[1:]), strict=True):
                state[older] = state[newer] if newer != done[0] else later(state[newer], state[older])
            state[done[0]] = end
        else:
            state[done[0]] = later(state[done[0]], end)
        state[target.written] = end
    return end


def product(a: Any, b: Any) -> Any:
    """Return the (max, +) product of two matrices."""
    return np.maximum((a[:, :, None] + b[None, :, :]).max(axis=1), NEVER)


class Scheduler:
    """Schedule of the nests of one phase, given the price of every step."""

    def __init__(self, phase: Phase, cycles: Callable[[Step], int]) -> None:
        self.pipes = PIPES[phase.core_kind]
        self._cycles = cycles
        self._priced: dict[int, tuple[Step, PricedInstruction]] = {}
        self._matrices: dict[int, tuple[Nest, Any]] = {}
        self._powers: dict[tuple[int, int], Any] = {}
        self._slots: dict[Buffer, SlotState] = {}
        self.length = len(self.pipes)
        for buffer, pipes in _pipes_of(phase).items():
            if len(pipes) > 1:  # the order of a pipe covers all waits for a buffer that only it uses
                first = self.length
                self.length += 1 + buffer.slots
                self._slots[buffer] = SlotState(first, tuple(range(first + 1, self.length)))

    def timed(self, item: Step) -> PricedInstruction:
        """Return the step with its price and the places in the state that it waits for."""
        if id(item) not in self._priced:
            instr = item.instr
            reads = {v.base for v in instr.reads() if isinstance(v.base, Buffer)} - {instr.dst.base}
            target = self._slots.get(instr.dst.base) if isinstance(instr.dst.base, Buffer) else None
            priced = PricedInstruction(
                self.pipes.index(instr.pipe),
                self._cycles(item),
                tuple(self._slots[b] for b in reads if b in self._slots),
                target,
                instr.fresh,
            )
            self._priced[id(item)] = (item, priced)
        return self._priced[id(item)][1]

    def ends(self, nest: Nest) -> dict[str, int]:
        """Return the cycles from the start of the phase until each pipe is done, by powers of matrices."""
        return dict(zip(self.pipes, self.advance([0] * self.length, nest), strict=False))

    def makespan(self, nest: Nest) -> int:
        """Return the cycles from the start of the phase until every pipe is done."""
        return max(self.ends(nest).values())

    def plain_makespan(self, nest: Nest) -> int:
        """Return the same cycles as `makespan` by scheduling every iteration; for tests and small nests."""
        state = [0] * self.length
        for item in _unrolled(nest):
            step(state, self.timed(item), max)
        return max(state[: len(self.pipes)])

    def advance(self, state: list[int], nest: Nest) -> list[int]:
        """Return the state after the nest, from `state`."""
        for item in nest:
            if isinstance(item, Step):
                step(state, self.timed(item), max)
            elif item.times == 1:
                state = self.advance(state, item.body)
            else:
                state = self._repeat(state, item)
        return state

    def _repeat(self, state: list[int], run: TileRun) -> list[int]:
        vector = np.array(state, dtype=np.int64)
        times, bit = run.times, 0
        while times >> bit:
            if times >> bit & 1:
                vector = (self._power_of_two(run.body, bit) + vector).max(axis=1)
            bit += 1
        return [int(x) for x in vector]

    def _power_of_two(self, body: Nest, bit: int) -> Any:
        key = (id(body), bit)
        if key not in self._powers:
            if bit == 0:
                self._powers[key] = self._matrix(body)
            else:
                half = self._power_of_two(body, bit - 1)
                self._powers[key] = product(half, half)
        return self._powers[key]

    def _matrix(self, body: Nest) -> Any:
        if id(body) not in self._matrices:
            identity = np.full((self.length, self.length), NEVER, dtype=np.int64)
            np.fill_diagonal(identity, 0)
            self._matrices[id(body)] = (body, self._rows(list(identity), body))
        return self._matrices[id(body)][1]

    def _rows(self, state: list[Any], nest: Nest) -> Any:
        for item in nest:
            if isinstance(item, Step):
                step(state, self.timed(item), np.maximum)
                continue
            times, bit = item.times, 0
            matrix = np.array(state)
            while times >> bit:
                if times >> bit & 1:
                    matrix = product(self._power_of_two(item.body, bit), matrix)
                bit += 1
            state = list(matrix)
        return np.maximum(np.array(state), NEVER)

    def events(self, nest: Nest, state: list[int] | None = None) -> Iterator[tuple[Step, int, int]]:
        """Yield (step, start, end) [cycles] of every executed instruction, in program order."""
        state = [0] * self.length if state is None else state
        for item in _unrolled(nest):
            priced = self.timed(item)
            end = step(state, priced, max)
            yield item, end - priced.cycles, end

    def busy(self, nest: Nest) -> dict[str, int]:
        """Return the cycles that each pipe works."""
        out = dict.fromkeys(self.pipes, 0)
        for item in nest:
            if isinstance(item, Step):
                out[item.instr.pipe] += self.timed(item).cycles
            else:
                for pipe, cycles in self._busy_of(item.body).items():
                    out[pipe] += cycles * item.times
        return out

    def _busy_of(self, body: Nest) -> dict[str, int]:
        key = (id(body), -1)
        if key not in self._powers:
            self._powers[key] = self.busy(body)
        busy: dict[str, int] = self._powers[key]
        return busy


def _unrolled(nest: Nest) -> Iterator[Step]:
    for item in nest:
        if isinstance(item, Step):
            yield item
        else:
            for _ in range(item.times):
                yield from _unrolled(item.body)


def _pipes_of(phase: Phase) -> dict[Buffer, set[str]]:
    out: dict[Buffer, set[str]] = {}
    for instr in phase.instructions():
        for view in (*instr.reads(), instr.dst):
            if isinstance(view.base, Buffer):
                out.setdefault(view.base, set()).add(instr.pipe)
    return out
