"""Listings: the text of a small program to the letter, and what must hold for every operator."""

import pytest

from tests.recorded import CASES, kernel, planned, price, tensor
from tilesim.chip.loading import load_chip
from tilesim.planning.plan import plan
from tilesim.program.loop_nest import Nests
from tilesim.program.recorder import Phase
from tilesim.render.listing import listing, table
from tilesim.render.program_lines import tiles_of
from tilesim.simulation.timeline import simulate
from tilesim.text import TextColumn

CHIP = load_chip("ascend950pr").override(
    {
        "launch.base_us": 2,
        "launch.block_us": 0.5,
        "launch.sync_us": 3,
        "clock.vector_hz": 1_000_000_000,
        "cores.vector": 8,
        "memory.ub.size_bytes": 1024,
    },
)
GOLDEN = """\
made_up on ascend950pr, float32: N=11

phase scale, 2 vector cores: keeps rows
                                                                       mte2          v       mte3
  wIn = copy(w)                                                           5
  for i in 11: 3 x 2, block_balanced over cores
    xIn = copy(x[i.start:+i.size, :])                                    20
    for r in i.size: 2 x 1
      xIn[r.start, :] = mul(xIn[r.start, :], wIn)                                    4
    out[i.start:+i.size, :] = copy(xIn)                                                        12
    = a tile of i                                                        20          8         12
slowest core                                                             65         24         36
  85 cycles, 0.085 us; bound by latency: slots/dependencies (mte2 busy 76.5%)
  mte2 waits for mte3 at the end: 100% of its waiting
  cycles of cores: 1 cores 85, 1 cores 71
  77.1% of the chip's 8 vector cores idle
  reads 416 B, writes 352 B of global memory

  buffer  memory  shape         dtype    slots  bytes  share
  xIn     ub      [2, 8] = 2x8  float32      2    128  12.5%
  wIn     ub      [8] = 8       float32      1     32   3.1%
  ub: 160 of 1,024 B, 15.6%

times
  phase   cycles     us  share  bound
  scale       85  0.085   3.3%  latency: slots/dependencies
  launch          2.500  96.7%
  all         85  2.585
bottleneck: launch and sync: 97% of the time"""


def small():
    """Rows of x, two at a time, each multiplied in place with w, which stays on chip."""
    x, w, out = tensor("x", 11, 8), tensor("w", 8), tensor("out", 11, 8, role="output")
    made = kernel(x, w, out)
    with made.vector("scale", "keeps rows") as p:
        resident = p.load(w, name="wIn", slots=1)
        for i in p.loop("i", 11, 2, split=True):
            rows = p.buffer("xIn", (i.size, 8), slots=2)
            p.load(x[i], out=rows)
            for r in p.loop("r", i.size, carry=(rows,)):
                p.mul(p.read(rows[r.start]), resident, out=rows[r.start])
            p.store(p.read(rows), out[i])
    costs = {"wIn": 5, "xIn": 10, "out": 6}

    def prices(step):
        if step.instr.op == "mul":
            return 4
        return costs[step.instr.dst.base.name] * step.sizes.get("i.size", 1)

    return planned(made, CHIP, prices, {"N": 11}, cores=2)


def test_the_listing_to_the_letter():
    lines = listing(simulate(small()), where=False)
    assert lines[-1].startswith("an estimate with")
    assert "\n".join(lines[:-1]) == GOLDEN


def test_where_names_the_line_of_every_instruction():
    lines = listing(simulate(small()))
    assert sum("  test_listing.py:" in line for line in lines) == 4 + 2


def test_nothing_depends_on_when_or_where_it_runs():
    assert listing(simulate(small())) == listing(simulate(small()))


@pytest.mark.parametrize(("op", "dims", "dtype"), CASES, ids=[op for op, *_ in CASES])
def test_of_an_operator(op, dims, dtype):
    made = plan(op, dims, chip="ascend950pr", dtype=dtype)
    lines = listing(simulate(made), where=False)
    text = "\n".join(lines)
    for one in made.phases:
        assert f"phase {one.phase.name}, {one.cores} {one.phase.core_kind} core" in text
        assert f"  {one.cycles:,} cycles, " in text
        for buffer in one.homes:
            assert f"  {buffer.name} " in text
    assert all(line == line.rstrip() for line in lines)
    assert text.count(" = ") >= sum(1 for p in made.phases for _ in p.phase.instructions())


def test_buffers_come_largest_first():
    made = plan(*CASES[0][:2], chip="ascend950pr", dtype="bfloat16")
    lines = listing(simulate(made), where=False)
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["buffer", "memory"])
    sizes = []
    for line in lines[start + 1 :]:
        if " ub: " in f" {line.strip()}":
            break
        sizes.append(int(line.split("float32" if "float32" in line else "bfloat16")[1].split()[1].replace(",", "")))
    assert len(sizes) == len(made.phases[0].homes)
    assert sizes == sorted(sizes, reverse=True)


def test_tiles_of_a_loop():
    x, out = tensor("x", 11, 8), tensor("out", 11, 8, role="output")
    phase = Phase("p", "vector", kernel(x, out))
    for i in phase.loop("i", 11, 4):
        phase.store(phase.load(x[i], name="xIn"), out[i])
    (loop,) = phase.loops()
    assert tiles_of(Nests(phase, {}).core(0), loop) == [(2, 4), (1, 3)]


def test_tiles_of_a_loop_that_is_dealt_out():
    """5 rows of 2 full tiles and a tail, to 2 cores: 15 tiles, of which core 0 has the even ones."""
    x, out = tensor("x", 5, 7, 8), tensor("out", 5, 7, 8, role="output")
    phase = Phase("p", "vector", kernel(x, out))
    for i in phase.loop("i", 7, 3, split="cyclic", rows=5):
        phase.store(phase.load(x[i.row, i], name="xIn"), out[i.row, i])
    (loop,) = phase.loops()
    nest = Nests(phase, {"p.cores": 2, "i.parts": 2}).core(0)
    assert tiles_of(nest, loop) == [(1, 3), (1, 1), (2, 3), (1, 1), (2, 3), (1, 1)]


def test_a_table_is_as_wide_as_it_must_be():
    rows = [("a", "1"), ("long name", "1,000")]
    assert list(table((TextColumn("name"), TextColumn("bytes", number=True)), rows)) == [
        "  name       bytes",
        "  a              1",
        "  long name  1,000",
    ]


def test_prices_are_those_of_the_schedule():
    lines = listing(
        simulate(planned(small().kernel, CHIP, price({"wIn": 7, "xIn": 1, "mul": 2, "out": 3}))), where=False
    )
    assert next(line for line in lines if "wIn = copy(w)" in line).split()[-1] == "7"


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize(("op", "dims", "dtype"), CASES, ids=[op for op, *_ in CASES])
def test_in_a_width_nothing_is_lost_or_longer(op, dims, dtype, width):
    made = plan(op, dims, chip="ascend950pr", dtype=dtype)
    lines = listing(simulate(made), where=True, width=width)
    assert max(map(len, lines)) <= width
    words = set(" ".join(lines).split())
    for phase in made.phases:
        for instr in phase.phase.instructions():
            assert set(str(instr).split()) <= words
        assert {f"{cycles:,}" for cycles in phase.busy_cycles.values()} <= words
        assert {buffer.name for buffer in phase.homes} <= words
