"""Values of a kernel: its phases in numpy, core by core and tile by tile, in on-chip memories of their real size.

Every buffer lives at its planned offset of an arena, slots rotate as in the schedule, and arenas and workspace start as
NaN, so that a read of memory that nothing wrote, or of a slot that was reused, shows in the results. An access outside
a tensor or buffer is refused with the author's line.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tilesim.errors import BadOperator
from tilesim.feasibility.placement import Home
from tilesim.planning.phase_plan import PhasePlan
from tilesim.program import dtypes
from tilesim.program.access import inside, outside
from tilesim.program.buffers import Buffer, Tensor, View
from tilesim.program.isa import ISA, REGISTERS, SPACES
from tilesim.program.loop_nest import Parts, bound, parts_of, tiles
from tilesim.program.recorder import Instr, Loop, Phase, Source
from tilesim.program.sizes import Dim, Size, Variable
from tilesim.program.units import FRACTAL

Array = Any
Env = dict[str, Any]
Body = Callable[[Env], None]


@dataclass(frozen=True)
class PhaseJob:
    """A phase ready to run: every size but those of its loops, the cores that take part, the places of buffers."""

    phase: Phase
    sizes: Mapping[str, Any]
    cores: int
    homes: Mapping[Buffer, Home]
    memory_bytes: Mapping[str, int]

    @staticmethod
    def of(plan: PhasePlan) -> PhaseJob:
        """Return the job of a planned phase, in on-chip memories of their real size."""
        memory = {s: plan.chip.memory.on_chip(s).size_bytes for s in SPACES[plan.phase.core_kind]}
        memory[REGISTERS] = plan.used_bytes(REGISTERS)
        return PhaseJob(plan.phase, plan.sizes, plan.cores, plan.homes, memory)


Progress = Callable[[str, int, int], None]
"""A function of the phase's name, its cores that are done and all its cores."""


def execute(
    jobs: Sequence[PhaseJob], arrays: dict[str, Array], *, threads: int = 1, progress: Progress | None = None
) -> None:
    """Run phases in order. `arrays` has every tensor of the kernel in its dtype; outputs and workspace are overwritten.

    Within a phase cores are independent, so `threads` of them run at once; results do not depend on the number.
    """
    with threadpool_limits(1, user_api="blas"):  # a tile is too small to share; threads of BLAS only wait
        _execute(jobs, arrays, threads, progress)


def _execute(jobs: Sequence[PhaseJob], arrays: dict[str, Array], threads: int, progress: Progress | None) -> None:
    for job in jobs:
        local = threading.local()
        done = itertools.count(1)

        def run_core(core: int, job: PhaseJob = job, local: threading.local = local, done: Any = done) -> None:
            if not hasattr(local, "worker"):
                local.worker = Worker(job, arrays)
            local.worker.run(core)
            if progress is not None:
                progress(job.phase.name, next(done), job.cores)

        if threads == 1 or job.cores == 1:
            for core in range(job.cores):
                run_core(core)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(run_core, range(job.cores)))


class Slots:
    """The arrays of a buffer's slots; a fresh write moves on to the next."""

    def __init__(self, arrays: list[Array]) -> None:
        self.arrays = arrays
        self.turn = 0
        self.current = arrays[0]

    def next(self) -> None:
        """Move to the next slot."""
        self.turn = (self.turn + 1) % len(self.arrays)
        self.current = self.arrays[self.turn]


class Worker:
    """The cores of one phase, run one after the other in one arena for each memory."""

    def __init__(self, job: PhaseJob, arrays: Mapping[str, Array]) -> None:
        self.job = job
        self.arrays = arrays
        self.sizes: Env = dict(job.sizes)
        self.arenas = {space: np.empty(size, dtype=np.uint8) for space, size in job.memory_bytes.items()}
        self.slots: dict[Buffer, Slots] = {b: self._slots(b, place) for b, place in job.homes.items()}
        self._parts: Parts = {}
        self._body = self._block(job.phase.body)

    def run(self, core: int) -> None:
        """Run one core."""
        for arena in self.arenas.values():
            arena.fill(0xFF)  # NaN in every float format
        self._parts = parts_of(self.job.phase, self.sizes, core)
        env = {**self.sizes, Variable(self.job.phase.name, "core"): core}
        with np.errstate(all="ignore"):  # infinity and NaN without a trap, as the vector unit
            self._body(env)

    def _slots(self, buffer: Buffer, place: Home) -> Slots:
        shape = [int(s.bind(self.sizes)) for s in buffer.allocated]
        dtype = dtypes.numpy_dtype(buffer.dtype)
        size = math.prod(shape) * dtype.itemsize
        starts = (place.offset + i * place.bytes for i in range(place.slots))
        return Slots([self.arenas[place.space][s : s + size].view(dtype).reshape(shape) for s in starts])

    # ---------------------------------------------------------------- from the recorded tree to closures
    def _block(self, body: Sequence[Instr | Loop]) -> Body:
        parts = [self._instruction(node) if isinstance(node, Instr) else self._loop(node) for node in body]

        def run(env: Env) -> None:
            for part in parts:
                part(env)

        return run

    def _loop(self, loop: Loop) -> Body:
        inner = self._block(loop.body)
        used = {n for s in (loop.extent, loop.tile, loop.unit, loop.rows, loop.strip) for n in s.names()}
        depends = [n for n in used if n not in self.sizes]
        known: dict[tuple[Any, ...], list[dict[str, int]]] = {}

        def run(env: Env) -> None:
            parts, part = self._parts.get(loop, (1, 0))
            if part < 0:
                return
            key = (parts, part, *(env[n] for n in depends))
            positions = known.get(key)
            if positions is None:
                known.clear()
                positions = known[key] = [bound(loop, place) for place in tiles(loop, env, parts, part)]
            for variables in positions:
                env.update(variables)
                inner(env)

        return run

    def _instruction(self, instr: Instr) -> Body:
        row = ISA[instr.op]
        meaning = row.meaning
        padded = instr.op == "mmad"
        pads = itertools.chain("ab" if padded else "", itertools.repeat(""))
        sources = [self._operand(s, instr, pad) for s, pad in zip(instr.src, pads, strict=False)]
        target = self._view(instr.dst, instr, "c" if padded else "")
        sizes = [s for s in map(self._number, instr.dst.shape) if not isinstance(s, int) or s == 0]
        slots = self.slots[instr.dst.base] if isinstance(instr.dst.base, Buffer) and instr.fresh else None

        def run(env: Env) -> None:
            for size in sizes:
                if (size if isinstance(size, int) else size.bind(env)) == 0:
                    return
            if slots is not None:
                slots.next()
            meaning(target(env), *[source(env) for source in sources])

        return run

    def _operand(self, source: Source, instr: Instr, pad: str) -> Callable[[Env], Any]:
        if isinstance(source, View):
            return self._view(source, instr, pad)
        if not source.names <= self.sizes.keys():
            return source.bind
        value = source.bind(self.sizes)
        return lambda _: value

    def _number(self, size: Size) -> int | Size:
        if size.constant is not None:
            return size.constant
        known = size.substitute({name: self.sizes[name] for name in size.names() & self.sizes.keys()})
        return known if known.constant is None else known.constant

    def _view(self, view: View, instr: Instr, pad: str = "") -> Callable[[Env], Array]:
        """Return the array of a view as a function of the loops' positions; operands of mmad include their padding.

        The function raises BadOperator for a view that lies outside its tensor or buffer.
        """
        base = view.base
        starts, sizes = [self._number(s) for s in view.starts], [self._number(s) for s in view.sizes]
        kept = [i in view.kept for i in range(len(starts))]
        lift = (None,) * len(view.expanded)
        holder: Slots | None = None
        array: Array = None
        if isinstance(base, Tensor):
            array = self.arrays[base.name].reshape([int(s.bind(self.sizes)) for s in base.shape])
            full = array.shape
        else:
            holder = self.slots[base]
            full = holder.current.shape
        up = {"a": (0,), "b": (1,), "c": (0, 1)}.get(pad, ())
        fixed = all(isinstance(x, int) for x in (*starts, *sizes))
        if fixed and (error := outside(instr, view, full, self.sizes)):

            def refuse(_: Env, error: BadOperator = error) -> Array:
                raise error

            return refuse
        if fixed and not lift:
            key = tuple(_index(s, n, k, i in up) for i, (s, n, k) in enumerate(zip(starts, sizes, kept, strict=True)))
            if all(isinstance(k, slice) and k == slice(0, n) for k, n in zip(key, full, strict=True)):
                return (lambda _: array) if holder is None else (lambda _: holder.current)
            if holder is None:
                part = array[key]
                return lambda _: part
            return lambda _: holder.current[key]
        code = [
            (s if isinstance(s, int) else _affine(s), n if isinstance(n, int) else _affine(n), full[i], k, i in up)
            for i, (s, n, k) in enumerate(zip(starts, sizes, kept, strict=True))
        ]

        def part_at(env: Env) -> Array:
            key = [*lift]
            for s, n, size, k, rounded_up in code:
                first = s if isinstance(s, int) else s(env)
                count = n if isinstance(n, int) else n(env)
                if not inside(first, count, size) and (error := outside(instr, view, full, env)):
                    raise error
                key.append(_index(first, count, k, rounded_up))
            return (array if holder is None else holder.current)[tuple(key)]

        return part_at


def _index(start: Any, size: Any, kept: bool, rounded_up: bool) -> Any:
    """An index or slice; `rounded_up` to a fractal for operands of mmad, as BLAS sums a single row in another order."""
    if not kept:
        return start
    return slice(start, start + (-(-size // FRACTAL) * FRACTAL if rounded_up else size))


def _affine(size: Size) -> Callable[[Env], int]:
    """A fast evaluation of a size that is a sum of multiples of names; any other falls back to bind."""
    terms = [(m, c) for m, c in size.terms if m]
    pairs = [(m[0].name, c) for m, c in terms if len(m) == 1 and isinstance(m[0], Dim)]
    if len(pairs) < len(terms):
        return size.bind
    constant = sum(c for m, c in size.terms if not m)
    if len(pairs) == 1:
        ((name, factor),) = pairs
        if factor == 1 and constant == 0:
            return lambda env: env[name]
        return lambda env: env[name] * factor + constant
    return lambda env: sum(env[n] * c for n, c in pairs) + constant
