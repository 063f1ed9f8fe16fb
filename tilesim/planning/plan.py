"""Plan of one call on one chip: tile sizes, the split over cores, buffer map, workspace, the vendor's tiling data."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.feasibility.inequalities import WORKSPACE_ALIGN_BYTES, Inequality, budget
from tilesim.feasibility.verdict import Verdict, refusal, verdict_of
from tilesim.late_binding import Shown, estimates
from tilesim.operators.binding import Given, bind
from tilesim.operators.operator import Call, Operator, VendorTiling
from tilesim.operators.status import Status
from tilesim.ops import load_operator
from tilesim.planning.cube_tiling import cube_plan
from tilesim.planning.manual_tiles import of_phase, overflowing, refuse_impossible
from tilesim.planning.phase_plan import PhasePlan, core_shares, idle_share
from tilesim.planning.stage_graph import graph
from tilesim.planning.vector_tiling import vector_plan
from tilesim.program.access import refuse_outside
from tilesim.program.buffers import tensor_bytes
from tilesim.program.recorder import Kernel, Phase
from tilesim.program.sizes import Variable

if TYPE_CHECKING:
    import networkx as nx

FIELD_BYTES = 8
"""Bytes of a field of tiling data, an integer of 64 bits. Source: the vendor's host code of operators that have it."""


@dataclass(frozen=True, eq=False)
class Plan(Shown):
    """Kernel with every size decided. `workspace` maps its tensors to (offset, bytes), `by_hand` tiles to sizes."""

    verdict: Verdict
    kernel: Kernel
    sizes: Mapping[str, Any]
    phases: tuple[PhasePlan, ...]
    workspace: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    by_hand: Mapping[str, int] = field(default_factory=dict)
    by_rule: tuple[PhasePlan, ...] = ()
    """Phases with the vendor's tiles, equal to `phases` without tiles by hand; empty without a public rule."""

    @property
    def call(self) -> Call:
        """Planned call."""
        return self.verdict.call

    @property
    def chip(self) -> Chip:
        """Chip of the plan."""
        return self.verdict.on

    @property
    def operator(self) -> Operator:
        """Operator of the call."""
        return self.call.operator

    @property
    def ok(self) -> bool:
        """True if the call fits."""
        return self.verdict.ok

    @property
    def status(self) -> Status | None:
        """Status of the vendor's first call: success, since a call with another status has no plan."""
        return self.verdict.status

    @property
    def note(self) -> str:
        """Remarks on the plan: the vendor launches a call that does not fit, or tiles it in another way."""
        remarks = [self.verdict.note]
        if not self.as_vendor:
            remarks.append(
                f"{', '.join(f'{n}={v}' for n, v in self.by_hand.items())} by hand is not the vendor's tiling"
            )
        return "; ".join(text for text in remarks if text)

    @functools.cached_property
    def vendor(self) -> VendorTiling | None:
        """Vendor's tiling, None if its rule is not public."""
        tiles = {name: size for p in self.by_rule for name, size in p.tiles.items()}
        return self.operator.tiling(self.call, self.chip, tiles) if self.operator.tiling else None

    @property
    def as_vendor(self) -> bool:
        """True if tiles and cores are the vendor's, or its rule is not public."""
        pairs = zip(self.phases, self.by_rule, strict=False)
        return self.vendor is None or all((a.tiles, a.cores) == (b.tiles, b.cores) for a, b in pairs)

    @property
    def tiling_data(self) -> Mapping[str, int | float | None] | None:
        """The vendor's fields in the vendor's order, None where its rule is not public or tiles by hand differ.

        A field that is not known is None; `tiling_unknown` says why.
        """
        return self.vendor.data if self.vendor and self.as_vendor else None

    @property
    def tiling_unknown(self) -> Mapping[str, str]:
        """Why a field of the tiling data is not known, by its name."""
        return self.vendor.unknown if self.vendor and self.as_vendor else {}

    @property
    def template(self) -> tuple[int, ...] | None:
        """The template parameters by which the vendor picks a kernel, None where a key does, and as the fields are."""
        return self.vendor.template if self.vendor and self.as_vendor else None

    @property
    def tiling_key(self) -> int | None:
        """Key by which the vendor selects a kernel, None if `tiling_data` is."""
        return self.vendor.key if self.vendor and self.as_vendor else None

    @property
    def tiling_bytes(self) -> int:
        """Bytes of tiling data that every core reads before it begins, as far as they are known."""
        vendor = self.vendor
        if vendor and vendor.data:
            return vendor.data_bytes or FIELD_BYTES * len(vendor.data)
        return self.kernel.tiling_bytes

    @property
    def block_dim(self) -> int:
        """Blocks of the launch; of a kernel that mixes cores, cube cores with their share of the vector cores."""
        if self.vendor and self.as_vendor:
            return self.vendor.block_dim
        cube = max((p.cores for p in self.phases if p.phase.core_kind == "cube"), default=0)
        vector = max((p.cores for p in self.phases if p.phase.core_kind == "vector"), default=0)
        return max(cube, -(-vector * self.chip.cores.cube // self.chip.cores.vector)) if cube else vector

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace that the first call returns: the platform's part and the tensors between phases."""
        if self.vendor and self.vendor.workspace_bytes is not None:
            return self.vendor.workspace_bytes
        return self.chip.workspace.system_bytes + max((o + b for o, b in self.workspace.values()), default=0)

    @property
    def route(self) -> str:
        """Route of the kernel: "kernel" for the operator's own, else a word of the operator, such as "composite"."""
        return self.kernel.route

    @property
    def ub_used_bytes(self) -> int:
        """Bytes of the unified buffer that the fullest phase uses, without reserves."""
        homes = [(b, h) for p in self.phases for b, h in p.homes.items() if h.space == "ub" and not b.pool]
        return max((home.offset + home.bytes * home.slots for _, home in homes), default=0)

    @property
    def ub_available_bytes(self) -> int:
        """Bytes of the unified buffer that the operator counts on."""
        if self.vendor and self.vendor.ub_available_bytes is not None:
            return self.vendor.ub_available_bytes
        available = budget(self.kernel, self.chip, "ub").bind(self.sizes)
        return int(available) + sum(int(b.bytes.bind(self.sizes)) for b in self.kernel.statics)

    def on(self, chip: Chip) -> Plan:
        """Return the same tiles on a chip with other rates and latencies; its cores and memories must be the same."""
        phases = tuple(phase.on(chip) for phase in self.phases)
        return replace(self, verdict=replace(self.verdict, on=chip), phases=phases)

    @checked
    def graph(self, tiles: int | None = None) -> nx.DiGraph:
        """Return its copies and computations as a networkx graph; `tiles` as of `stage_graph.graph`."""
        return graph(self, tiles)

    def to_json(self) -> dict[str, Any]:
        """Return all results as plain data, under the names of the command line's --json."""
        status = self.status
        return {
            "ok": self.ok,
            "verdict": self.verdict.verdict,
            "note": self.note or None,
            "status": {"name": status.name, "code": status.code} if status else None,
            "operator": self.operator.name,
            "chip": self.chip.name,
            "dims": dict(self.call.dims),
            "dtype": self.call.dtype,
            "options": dict(self.call.options),
            "route": self.route,
            "by_hand": dict(self.by_hand),
            "block_dim": self.block_dim,
            "tiling_key": self.tiling_key,
            "template": None if self.template is None else list(self.template),
            "tiling_data": None if self.tiling_data is None else dict(self.tiling_data),
            "tiling_unknown": dict(self.tiling_unknown),
            "workspace_bytes": self.workspace_bytes,
            "workspace": {name: {"offset": at, "bytes": size} for name, (at, size) in self.workspace.items()},
            "ub_used_bytes": self.ub_used_bytes,
            "ub_available_bytes": self.ub_available_bytes,
            "phases": [_phase_json(phase) for phase in self.phases],
            **estimates(self),
        }


@checked
def plan(
    op: Operator | str,
    given: Given,
    *,
    chip: Chip | str | Path,
    dtype: str | None = None,
    tiles: Mapping[str, int] | None = None,
    **options: Any,
) -> Plan:
    """Return the plan of a call, as `check` takes it.

    `tiles` fixes tile sizes ("rows", or "gate backward.rows" for one phase) and the number of "cores" by hand, in
    addition to the tiles that the vendor fixes. A call that does not fit but that the vendor launches has a plan with
    the vendor's tiles; its verdict says so. Raises BadInput as `check` does; Unsupported, Refused or DoesNotFit, each
    with its `verdict`, for a call that the vendor's first call refuses; BadOperator for a kernel that accesses elements
    outside of a tensor.
    """
    operator = load_operator(op)
    call = bind(operator, given, dtype=dtype, **options)
    return plan_of(verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip)), tiles)


def plan_of(
    verdict: Verdict, tiles: Mapping[str, int] | None = None, *, kept: Mapping[Phase, PhasePlan] = MappingProxyType({})
) -> Plan:
    """Return the plan of a verdict, with phases that are `kept` from another plan of the same kernel.

    Raises what `plan` raises.
    """
    if not verdict.call.operator.has_instructions:
        raise BadInput(verdict.operator, ["a file of buffers has no instructions, so it is checked but not planned"])
    if verdict.status is None or verdict.status.code:
        raise refusal(verdict)
    call, chip, kernel = verdict.call, verdict.on, verdict.kernel
    by_hand = dict(tiles or {})
    refuse_impossible(kernel, chip, by_hand)
    rule = call.operator.tiles(call, chip)
    limits = verdict.kernel_inequalities
    if by_hand:
        overflow = overflowing(verdict, kernel, limits, {**rule, **by_hand}, by_hand)
        if overflow is not None:
            raise refusal(overflow)
    sizes, phases = _phases(verdict, limits, rule, by_hand, kept)
    by_rule: tuple[PhasePlan, ...] = ()
    if call.operator.tiling:
        by_rule = _phases(verdict, limits, rule, {}, {})[1] if by_hand else phases
    return Plan(verdict, kernel, sizes, phases, _workspace(kernel, sizes), by_hand, by_rule)


def _phases(
    verdict: Verdict,
    limits: Sequence[Inequality],
    rule: Mapping[str, int],
    by_hand: Mapping[str, int],
    kept: Mapping[Phase, PhasePlan],
) -> tuple[dict[str, Any], tuple[PhasePlan, ...]]:
    """Return all sizes, and the phases in order: a later one may depend on the cores of those before it."""
    sizes: dict[str, Any] = dict(verdict.call.env)
    phases = []
    for phase in verdict.kernel.phases:
        planned = kept.get(phase)
        if planned is None or not sizes.items() <= planned.sizes.items():
            make = cube_plan if phase.core_kind == "cube" else vector_plan
            of_this = [limit for limit in limits if limit.phase == phase.name]
            planned = make(phase, sizes, verdict.on, of_this, of_phase(phase, {**rule, **by_hand}))
            refuse_outside(phase, planned.sizes)
            hand = of_phase(phase, by_hand)
            reasons = {n: "by hand" if n in hand else why for n, why in planned.reasons.items()}
            reasons |= {n: "the vendor's rule" for n, why in reasons.items() if why == "given"}
            planned = replace(planned, reasons=reasons)
        sizes[Variable(phase.name, "cores")] = planned.cores
        phases.append(planned)
    return sizes, tuple(phases)


def _workspace(kernel: Kernel, sizes: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    offset = 0
    for name, tensor in kernel.workspaces.items():
        size = tensor_bytes(tensor, sizes)
        out[name] = (offset, size)
        offset += -(-size // WORKSPACE_ALIGN_BYTES) * WORKSPACE_ALIGN_BYTES
    return out


def _phase_json(plan: PhasePlan) -> dict[str, Any]:
    return {
        "name": plan.phase.name,
        "note": plan.phase.note,
        "core_kind": plan.phase.core_kind,
        "cores": plan.cores,
        "idle_share": round(idle_share(plan), 6),
        "shares": [share.to_json() for share in core_shares(plan)],
        "tiles": dict(plan.tiles),
        "reasons": dict(plan.reasons),
        "buffers": [
            {
                "name": buffer.name,
                "space": home.space,
                "pool": buffer.pool or None,
                "offset": home.offset,
                "bytes": home.bytes * home.slots,
                "slots": home.slots,
                "dtype": buffer.dtype,
                "shape": [int(size.bind(plan.sizes)) for size in buffer.allocated],
            }
            for buffer, home in plan.homes.items()
        ],
    }
