"""Instruction counts of a plan: the runs of each instruction, the vectors that it passes, the bytes that it copies.

They come from the same nests as the schedule, so that counts and times agree on tails. A tile that runs n times counts
n-fold, so the cost of counting does not grow with n.
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
from tilesim.program.isa import COPIES, ISA, ROUTES
from tilesim.program.loop_nest import Nest, Nests, Step, TileRun, executed
from tilesim.program.recorder import Instr
from tilesim.timing.bursts import bursts
from tilesim.timing.cost import widest_operand_bytes


@dataclass(frozen=True, slots=True)
class Count:
    """Work of instructions: runs, vectors (256 bytes each) that they pass, bursts and bytes that they copy."""

    times: int = 0
    vectors: int = 0
    bursts: int = 0
    bytes: int = 0

    def __add__(self, other: Count) -> Count:
        """Return the sum of both."""
        return Count(
            self.times + other.times,
            self.vectors + other.vectors,
            self.bursts + other.bursts,
            self.bytes + other.bytes,
        )


@dataclass(frozen=True)
class CountLine:
    """Recorded instruction of a phase and the sum of its work."""

    phase: str
    instr: Instr
    count: Count

    @property
    def op(self) -> str:
        """Name of the instruction; of a copy, its path, such as "gm_ub"."""
        return ROUTES[self.instr.route][0] if self.instr.op in COPIES else self.instr.op


@dataclass(frozen=True)
class Counts:
    """Instructions of one core or of all, and counters of the vendor's kernel if it is known.

    In the vendor's terms one vector is one register of 256 bytes, and a transfer one copy instruction.
    """

    lines: tuple[CountLine, ...]
    vendor: Mapping[str, int]

    @property
    def by_op(self) -> dict[str, Count]:
        """Sums over equal instructions, copies by their path."""
        out: dict[str, Count] = {}
        for line in self.lines:
            out[line.op] = out.get(line.op, Count()) + line.count
        return out

    def to_json(self) -> dict[str, Any]:
        """Return all counts as plain data."""
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
    """Cores with equal tiles in a phase: index of the first, their number, counts of one."""

    first_core: int
    cores: int
    counts: Counts


def counts(plan: Plan, core: int | None = 0, *, loop: str = "") -> Counts:
    """Return the instruction counts of one core of a plan, or of all cores together for None.

    With `loop`, the counts of its first tile alone, on the first core that runs it if `core` is None: "h" of
    masked_causal_conv1d_backward gives the counts of the vendor's kernel for 64 columns. Raises BadInput for a core or
    a loop that the plan does not have.
    """
    most = max((phase.cores for phase in plan.phases), default=1)
    if core is not None and not 0 <= core < most:
        raise BadInput("core", [f"{core} is not one of 0..{most - 1}"])
    if loop:
        return _counted(plan, _tile(plan, core, loop))
    nests = []
    for phase in plan.phases:
        if core is None:
            nests += [(phase, nest, cores) for nest, _, cores in phase.nests]
        elif core < phase.cores:
            nests.append((phase, Nests(phase.phase, phase.sizes).core(core), 1))
    return _counted(plan, nests)


def shares(plan: Plan, phase: str = "") -> tuple[Share, ...]:
    """Return every distinct share of a phase; `phase` may be "" if the plan has only one.

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
    """Return the first tile of a loop, as (phase, nest, 1)."""
    for phase in plan.phases:
        nests = [nest for nest, _, _ in phase.nests]
        if core is not None:
            nests = [Nests(phase.phase, phase.sizes).core(core)] if core < phase.cores else []
        for body in (body for nest in nests for body in _bodies(nest, loop)):
            return [(phase, body, 1)]
    names = list(dict.fromkeys(nested.name for phase in plan.phases for nested in phase.phase.loops()))
    if loop in names:
        return []  # the core has no tile of it
    hint = did_you_mean(loop, names) or f" there are: {', '.join(names) or 'none'}"
    raise BadInput("loop", [f"{loop!r} is not a loop of {plan.operator.name};{hint}"])


def _bodies(nest: Nest, loop: str) -> Iterator[Nest]:
    """Yield the tiles of a loop in a nest; a pattern of tiles contains a run of the same loop."""
    for item in nest:
        if isinstance(item, TileRun):
            inner = list(_bodies(item.body, loop))
            if item.loop.name == loop and not inner:
                yield item.body
            yield from inner


def _counted(plan: Plan, nests: Iterable[tuple[PhasePlan, Nest, int]]) -> Counts:
    """Return the sum of the counts of (phase, nest, number of cores that run it)."""
    width = plan.chip.vector.width_bytes
    lines: dict[Instr, CountLine] = {}
    vendor: dict[str, int] = {}
    for phase, nest, cores in nests:
        for step, times in executed(nest, cores):
            run = work(step, width)
            count = Count(times, run.vectors * times, run.bursts * times, run.bytes * times)
            known = lines.get(step.instr)
            total = known.count + count if known else count
            lines[step.instr] = CountLine(phase.phase.name, step.instr, total)
            if plan.operator.vendor_counters and plan.route == "kernel":
                for name, value in plan.operator.vendor_counters(run).items():
                    vendor[name] = vendor.get(name, 0) + value * times
    return Counts(tuple(lines.values()), vendor)


def work(step: Step, width_bytes: int) -> Work:
    """Return the work of one run of an instruction, in vectors of `width_bytes`."""
    instr = step.instr
    rows = math.prod(int(s.bind(step.sizes)) for s in instr.dst.shape[:-1])
    if instr.op in COPIES:
        runs = bursts(step)
        return Work(instr, rows, 0, runs.count, runs.total_bytes)
    if ISA[instr.op].pipe != "v":
        return Work(instr, rows, 0, 0, 0)
    return Work(instr, rows, -(-widest_operand_bytes(step, width_bytes) // width_bytes), 0, 0)


def _plain(count: Count) -> dict[str, int]:
    return {name: getattr(count, name) for name in ("times", "vectors", "bursts", "bytes")}
