"""Programs to schedule: random ones and small ones, recorded as an operator is, at prices that a test chooses."""

import random
from collections.abc import Callable, Mapping
from types import SimpleNamespace

from tilesim.chip.chip import Chip
from tilesim.errors import BadOperator
from tilesim.operators.operator import Argument, Operator
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan
from tilesim.program.buffers import Buffer, Tensor
from tilesim.program.loop_nest import Nest, Nests, Step
from tilesim.program.recorder import Instr, Kernel, Phase
from tilesim.program.sizes import Size, Variable
from tilesim.timing.bandwidth import Rates
from tilesim.timing.schedule import Scheduler

WIDTH = 16
"""Elements of every buffer of a random program."""
CASES = [
    ("text_gated_residual_grad", {"B": 1, "S": 96, "C": 4, "H": 256, "R": 64}, "bfloat16"),
    ("masked_causal_conv1d_backward", {"S": 99, "B": 3, "H": 384, "W": 3}, "bfloat16"),
    ("glu_backward", {"self": (1000, 514), "dim": -1}, "float16"),
]
"""Calls of real operators: name, sizes, dtype."""

Prices = Callable[[Step], int]


def kernel(*tensors: Tensor) -> Kernel:
    """A kernel of those tensors."""
    return Kernel("made_up", "float32", {}, {t.name: t for t in tensors})


def tensor(name: str, *shape: int | Size, role: str = "input") -> Tensor:
    return Tensor(name, tuple(Size.of(s) for s in shape), "float32", role)


def price(by_name: Mapping[str, int]) -> Prices:
    """Cycles by op, or for a copy by the name of what it writes."""
    return lambda step: by_name[step.instr.dst.base.name if step.instr.op == "copy" else step.instr.op]


def tile_sizes(sizes: Mapping[str, int]) -> list[int]:
    """The sizes of the tiles that a step is in, outer loops first."""
    return [size for name, size in sizes.items() if isinstance(name, Variable) and name.word == "size"]


class RandomProgram:
    """A phase made by chance: loops to depth three, buffers of one to five slots, instructions of every pipe.

    What the recorder refuses is left out, so what is left is what an author could have written.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kind = self.chance.choice(["vector", "vector", "vector", "cube"])
        self.x, self.y = tensor("x", WIDTH, WIDTH), tensor("y", WIDTH, WIDTH, role="output")
        self.phase = Phase("p", self.kind, kernel(self.x, self.y))
        spaces = ["ub"] if self.kind == "vector" else ["l1", "l0a", "l0b", "l0c"]
        names = [(s, i) for s in spaces for i in range(self.chance.randint(1, 5 if self.kind == "vector" else 2))]
        self.buffers = [
            self.phase.buffer(f"{s}{i}", (WIDTH, WIDTH), space=s, slots=self.chance.randint(1, 5)) for s, i in names
        ]
        self.loops = 0
        self._body(0)
        self.prices = {instr: self.chance.choice([0, 1, 7, self.chance.randint(1, 200)]) for instr in self.instructions}

    @property
    def instructions(self) -> list[Instr]:
        return list(self.phase.instructions())

    def cycles(self, step: Step) -> int:
        """A price that depends on the tiles around, as a real one does."""
        return self.prices[step.instr] + sum(tile_sizes(step.sizes))

    def nest(self, core: int = 0) -> Nest:
        return Nests(self.phase, self.sizes).core(core)

    @property
    def sizes(self) -> dict[str, int]:
        return {"p.cores": 1, **{Variable(loop.name, "parts"): 1 for loop in self.phase.loops()}}

    def scheduler(self) -> Scheduler:
        return Scheduler(self.phase, self.cycles)

    # ---------------------------------------------------------------- what is recorded
    def _body(self, depth: int) -> None:
        for _ in range(self.chance.randint(1 + (depth > 0), 7)):
            if depth < 3 and self.chance.random() < 0.35:
                self._loop(depth)
            else:
                self._instruction()

    def _loop(self, depth: int) -> None:
        self.loops += 1
        extent = self.chance.choice(([1, 2, 5, 8, 13, 40], [1, 2, 3, 5], [1, 2, 4])[depth])
        tile = self.chance.choice([1, 1, 2, 3])
        some = [b for b in self.buffers if self.chance.random() < 0.3]
        split = self.chance.choice(["", "", "", "block_balanced", "cyclic"]) if depth == 0 else ""
        even = not split and self.chance.random() < 0.2
        for _ in self.phase.loop(f"i{self.loops}", extent, tile, carry=some, split=split, even=even):
            self._body(depth + 1)

    def _instruction(self) -> None:
        for _ in range(6):  # what is refused is tried otherwise
            make = self.chance.choice([self._copy_in, self._copy_in, self._copy_out, self._compute, self._compute])
            try:
                make()
            except BadOperator:
                continue
            return

    def _any(self, *spaces: str) -> Buffer:
        return self.chance.choice([b for b in self.buffers if not spaces or b.space in spaces])

    def _copy_in(self) -> None:
        target = self._any("ub", "l1")
        if self.chance.random() < 0.2:
            self.phase.load(self.x[0, :], out=target[0, :])
        else:
            self.phase.load(self.x, out=target)

    def _copy_out(self) -> None:
        self.phase.store(self._any("ub", "l0c"), self.y)

    def _compute(self) -> None:
        p, chance = self.phase, self.chance
        if self.kind == "cube":
            if chance.random() < 0.6:
                p.emit("copy", p.read(self._any("l1")), out=self._any("l0a", "l0b"))
            elif chance.random() < 0.3:
                p.clear(0.0, out=self._any("l0c"))
            else:
                p.mmad(self._any("l0a"), self._any("l0b"), out=self._any("l0c"))
            return
        a, b, out = self._any(), self._any(), self._any()
        which = chance.randrange(5)
        if which == 0:
            p.fill(0.0, out=out)
        elif which == 1:
            p.adds(p.read(a)[0, :], 1.0, out=out[0, :])
        elif which == 2:
            p.madd(a, b, out=out)
        else:
            p.add(a, b, out=out)


def planned(made: Kernel, chip: Chip, prices: Prices, sizes: Mapping[str, int] | None = None, cores: int = 1) -> Plan:
    """The plan of a recorded kernel on `cores` cores at the prices of a test, which has global memory to itself."""
    known = dict(sizes or {})
    phases = []
    for phase in made.phases:
        parts = {Variable(loop.name, "parts"): cores for loop in phase.loops() if loop.split}
        used = cores if parts else 1
        known |= {Variable(phase.name, "cores"): used}
        one = PhasePlan(phase, chip, {**known, **parts}, {}, {}, used)
        one.__dict__["rates"] = Rates()
        one.__dict__["scheduler"] = Scheduler(phase, prices)
        phases.append(one)
    operator = Operator(
        name=made.name, api="", about="", lead="x", dims=(), tensors=(Argument("x", "1"),), dtype="float32",
        dtypes={chip.family: ("float32",)}, kernel=lambda _: None,
    )  # fmt: skip
    call = SimpleNamespace(env=dict(sizes or {}), options={}, operator=operator)
    return Plan(SimpleNamespace(call=call, on=chip), made, known, tuple(phases))
