"""The roofline of a plan: operations a byte against operations a second, under what memory and cores can do.

An operation of a vector core is one element of one vector instruction, of a cube core a multiply or an add. Bytes are
those that copies move between global memory and the cores, so repeated reads count again: they may come from the cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan
from tilesim.program import dtypes
from tilesim.program.buffers import View
from tilesim.program.loop_nest import Step, executed
from tilesim.simulation.timeline import Timeline
from tilesim.timing.cost import MACS
from tilesim.timing.parameters import Parameters

ELEMENT_BYTES = 4
"""The vector roof is for elements of 4 bytes."""


@dataclass(frozen=True)
class Roof:
    """What nothing exceeds: bytes a second of a memory, or operations a second of all cores of a kind."""

    name: str
    core_kind: str
    """Empty for a memory."""
    per_s: float
    keys: tuple[str, ...]
    """Keys of the chip that it is made of."""


@dataclass(frozen=True)
class RooflinePoint:
    """One phase under the roofs."""

    phase: str
    core_kind: str
    operations: int
    bytes: int
    time_us: float

    @property
    def intensity(self) -> float:
        """Operations a byte; infinite where nothing is moved."""
        return self.operations / self.bytes if self.bytes else math.inf

    @property
    def per_s(self) -> float:
        """Operations a second."""
        return self.operations / self.time_us * 1e6 if self.time_us else 0.0


@dataclass(frozen=True)
class Roofline:
    """The roofs of a chip, and the phases of a plan that compute and move something."""

    roofs: tuple[Roof, ...]
    points: tuple[RooflinePoint, ...]

    def ceiling(self, point: RooflinePoint) -> float:
        """Operations a second that the phase could reach at its intensity, from global memory without the cache."""
        compute = [r.per_s for r in self.roofs if r.core_kind == point.core_kind]
        memory = next(r.per_s for r in self.roofs if not r.core_kind)
        return min([*compute, memory * point.intensity])

    def to_json(self) -> dict[str, Any]:
        """Roofs and points as plain data."""
        return {
            "roofs": [{"name": r.name, "core_kind": r.core_kind, "per_s": r.per_s, "keys": r.keys} for r in self.roofs],
            "points": [
                {
                    "phase": p.phase,
                    "core_kind": p.core_kind,
                    "operations": p.operations,
                    "bytes": p.bytes,
                    "intensity": round(p.intensity, 4),
                    "per_s": float(f"{p.per_s:.4g}"),
                    "share_of_ceiling": round(p.per_s / self.ceiling(p), 4),
                }
                for p in self.points
            ],
        }


def roofline(timeline: Timeline) -> Roofline:
    """The roofs and points of a plan with its times."""
    plans = timeline.plan.phases
    kinds = dict.fromkeys(p.phase.core_kind for p in plans)
    roofs = [
        _memory_roof("global memory", timeline.plan.chip, "memory.gm.read_bytes_per_s"),
        _memory_roof("L2 cache", timeline.plan.chip, "memory.l2.read_bytes_per_s"),
        *(_vector_roof(timeline.plan) if kind == "vector" else _cube_roof(timeline.plan) for kind in kinds),
    ]
    points = [
        RooflinePoint(one.phase.name, one.phase.core_kind, operations(one), one.traffic.bytes, spent.time_us)
        for one, spent in zip(plans, timeline.phases, strict=True)
    ]
    return Roofline(tuple(roofs), tuple(p for p in points if p.operations and p.bytes and p.time_us))


def operations(plan: PhasePlan) -> int:
    """Operations of a phase, of all cores."""
    return sum(_work(step) * times for nest, _, cores in plan.nests for step, times in executed(nest, cores))


def _work(step: Step) -> int:
    """Operations of one instruction."""
    instr = step.instr
    if instr.pipe == "v":
        shapes = [instr.dst.shape, *(s.shape for s in instr.src if isinstance(s, View))]
        return max(math.prod(int(n.bind(step.sizes)) for n in shape) for shape in shapes)
    if instr.op == "mmad":
        a, b = (v for v in instr.src if isinstance(v, View))
        m, k = (int(n.bind(step.sizes)) for n in a.shape)
        return 2 * m * k * int(b.shape[1].bind(step.sizes))
    return 0


def _memory_roof(name: str, chip: Chip, key: str) -> Roof:
    """The roof of a memory, at the rate that a parameter of the chip states."""
    parameters = Parameters(chip)
    return Roof(name, "", parameters[key], parameters.keys)


def _vector_roof(plan: Plan) -> Roof:
    """All vector cores at their best: one vector a cycle."""
    parameters = Parameters(plan.chip)
    per_s = parameters["cores.vector"] * parameters["clock.vector_hz"]
    return Roof(
        "vector cores", "vector", per_s * (parameters.whole("vector.width_bytes") // ELEMENT_BYTES), parameters.keys
    )


def _cube_roof(plan: Plan) -> Roof:
    """All cube cores at the rate of the plan's dtype, a multiply and an add counted apart."""
    parameters = Parameters(plan.chip)
    per_s = 2 * parameters["cores.cube"] * parameters["clock.cube_hz"]
    rate = MACS.get(dtypes.itemsize(plan.kernel.dtype), "macs_per_cycle_32bit")
    return Roof("cube cores", "cube", per_s * parameters[f"cube.{rate}"], parameters.keys)
