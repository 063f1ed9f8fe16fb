"""Instruction counts of a plan: how often each instruction runs, the vectors that it passes, the bytes that it copies.

They come from the same nests as the schedule, so that a count and a time cannot disagree about a tail. Nothing is
counted one by one: a tile that runs n times counts n-fold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilesim.errors import BadInput, did_you_mean
from tilesim.operators.operator import Work
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan
from tilesim.program.buffers import View
from tilesim.program.isa import COPIES, ISA, ROUTES
from tilesim.program.loop_nest import Nest, Nests, Step, TileRun, executed
from tilesim.program.recorder import Instr
from tilesim.timing.bursts import bursts
from tilesim.timing.cost import vector_bytes


@dataclass(frozen=True, slots=True)
class Count:
    """What instructions do: runs, vectors (256 bytes each) that they pass, bursts and bytes that they copy."""

    times: int = 0
    vectors: int = 0
    bursts: int = 0
    bytes: int = 0

    def __add__(self, other: Count) -> Count:
        """Both together."""
        return Count(
            self.times + other.times,
            self.vectors + other.vectors,
            self.bursts + other.bursts,
            self.bytes + other.bytes,
        )


@dataclass(frozen=True)
class CountLine:
    """One recorded instruction of a phase and what it does in all."""

    phase: str
    instr: Instr
    count: Count

    @property
    def op(self) -> str:
        """Its name; of a copy, the path that it takes, such as "gm_ub"."""
        return ROUTES[self.instr.route][0] if self.instr.op in COPIES else self.instr.op


@dataclass(frozen=True)
class Counts:
    """The instructions of a core, or of all, and the same under the names of the vendor's kernel where it is known.

    In the vendor's terms one vector is one register of 256 bytes, and a transfer one copy instruction.
    """

    lines: tuple[CountLine, ...]
    vendor: Mapping[str, int]

    @property
    def by_op(self) -> dict[str, Count]:
        """The counts of equal instructions together, copies by their path."""
        out: dict[str, Count] = {}
        for line in self.lines:
            out[line.op] = out.get(line.op, Count()) + line.count
        return out

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "by_op": {op: _plain(count) for op, count in self.by_op.items()},
            "vendor": dict(self.vendor),
            "instructions": [
                {"phase": line.phase, "op": line.op, "text": str(line.instr), **_plain(line.count)}
                for line in self.lines
            ],
        }


@dataclass(frozen=True)
class Share:
    """Cores that have equal tiles in a phase: the first of them, how many there are, the counts of one."""

    first_core: int
    cores: int
    counts: Counts


def counts(plan: Plan, core: int | None = 0, *, loop: str = "") -> Counts:
    """The instruction counts of one core of a plan, or of all cores together for None.

    With `loop`, the counts of its first tile alone, on the first core that runs it if `core` is None: "h" of
    masked_causal_conv1d_backward gives what the vendor's kernel does for 64 columns. Raises BadInput for a core or a
    loop that the plan does not have.
    """
    most = max((phase.cores for phase in plan.phases), default=1)
    if core is not None and not 0 <= core < most:
        raise BadInput("core", [f"{core} is not one of 0..{most - 1}"])
    if loop:
        return _counted(plan, _tile(plan, core, loop))
    whole = []
    for phase in plan.phases:
        if core is None:
            whole += [(phase, nest, cores) for nest, _, cores in phase.nests]
        elif core < phase.cores:
            whole.append((phase, Nests(phase.phase, phase.sizes).core(core), 1))
    return _counted(plan, whole)


def shares(plan: Plan, phase: str = "") -> tuple[Share, ...]:
    """Every distinct share of a phase, which need not be named where there is one.

    Raises BadInput for an unknown phase.
    """
    names = [planned.phase.name for planned in plan.phases]
    if not names and not phase:
        return ()
    if phase not in names and (phase or len(names) != 1):
        raise BadInput("phase", [f"{phase!r} is not one of {', '.join(names) or 'none'};{did_you_mean(phase, names)}"])
    planned = plan.phases[names.index(phase) if phase else 0]
    return tuple(Share(first, cores, _counted(plan, [(planned, nest, 1)])) for nest, first, cores in planned.nests)


def _tile(plan: Plan, core: int | None, loop: str) -> list[tuple[PhasePlan, Nest, int]]:
    """The first tile of a loop, as (phase, nest, 1)."""
    for phase in plan.phases:
        nests = [nest for nest, _, _ in phase.nests]
        if core is not None:
            nests = [Nests(phase.phase, phase.sizes).core(core)] if core < phase.cores else []
        for body in (body for nest in nests for body in _bodies(nest, loop)):
            return [(phase, body, 1)]
    names = list(dict.fromkeys(each.name for phase in plan.phases for each in phase.phase.loops()))
    if loop in names:
        return []  # the core has nothing of it
    hint = did_you_mean(loop, names) or f" there are: {', '.join(names) or 'none'}"
    raise BadInput("loop", [f"{loop!r} is not a loop of {plan.operator.name};{hint}"])


def _bodies(nest: Nest, loop: str) -> Iterator[Nest]:
    """The tiles of a loop in a nest; a pattern of tiles is a run of the same loop inside."""
    for item in nest:
        if isinstance(item, TileRun):
            inner = list(_bodies(item.body, loop))
            if item.loop.name == loop and not inner:
                yield item.body
            yield from inner


def _counted(plan: Plan, nests: Iterable[tuple[PhasePlan, Nest, int]]) -> Counts:
    """The counts of nests that run so many times each."""
    width = plan.chip.vector.width_bytes
    lines: dict[Instr, CountLine] = {}
    vendor: dict[str, int] = {}
    for phase, nest, cores in nests:
        for step, times in executed(nest, cores):
            one = work(step, width)
            count = Count(times, one.vectors * times, one.bursts * times, one.bytes * times)
            known = lines.get(step.instr)
            total = known.count + count if known else count
            lines[step.instr] = CountLine(phase.phase.name, step.instr, total)
            if plan.operator.vendor_counters and plan.route == "kernel":
                for name, value in plan.operator.vendor_counters(one).items():
                    vendor[name] = vendor.get(name, 0) + value * times
    return Counts(tuple(lines.values()), vendor)


def work(step: Step, width_bytes: int) -> Work:
    """What one run of an instruction passes, in vectors of `width_bytes`."""
    instr, sizes = step.instr, step.sizes
    rows = math.prod(int(s.bind(sizes)) for s in instr.dst.shape[:-1])
    if instr.op in COPIES:
        runs = bursts(step)
        return Work(instr, rows, 0, runs.count, runs.total_bytes)
    if ISA[instr.op].pipe != "v":
        return Work(instr, rows, 0, 0, 0)
    views = [instr.dst, *(s for s in instr.src if isinstance(s, View) and s.shape)]
    return Work(instr, rows, -(-max(vector_bytes(v, sizes, width_bytes) for v in views) // width_bytes), 0, 0)


def _plain(count: Count) -> dict[str, int]:
    return {name: getattr(count, name) for name in ("times", "vectors", "bursts", "bytes")}
