"""Schedules: fast-forward is exact, bounds hold, slots never hurt, and small cases come out as worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorded import RandomProgram, kernel, price, tensor, tile_sizes
from tilesim.program.loop_nest import Nests, Step, TileRun, parts_of, tiles
from tilesim.program.recorder import Instr, Phase
from tilesim.program.sizes import Variable
from tilesim.timing.schedule import Scheduler, step

N = 7
seeds = st.integers(0, 2**48)


def unrolled(nest):
    for item in nest:
        if isinstance(item, Step):
            yield item
        else:
            for _ in range(item.times):
                yield from unrolled(item.body)


def rule(phase, cycles, nest):
    """The end of every executed instruction, by the rule as it is written in words; every slot by itself."""
    used = {}
    for instr in phase.instructions():
        for seen in (*instr.reads(), instr.dst):
            used.setdefault(seen.base, set()).add(instr.pipe)
    free, written, ends = {}, {}, []
    slots = {base: [0] * base.slots for base, pipes in used.items() if len(pipes) > 1 and hasattr(base, "slots")}
    turn, freed = dict.fromkeys(slots, 0), dict.fromkeys(slots, 0)
    for item in unrolled(nest):
        instr = item.instr
        target = instr.dst.base
        reads = {v.base for v in instr.reads() if v.base in slots} - {target}
        start = max([free.get(instr.pipe, 0), *(written.get(b, 0) for b in reads)])
        if target in slots and instr.fresh:
            turn[target] = (turn[target] + 1) % target.slots
            # the slot that is taken is free once it is done and the one that was taken before it was free
            freed[target] = max(freed[target], slots[target][turn[target]])
            start = max(start, freed[target])
        elif target in slots:
            start = max(start, written.get(target, 0), slots[target][turn[target]])
        end = start + cycles(item)
        for base in reads | ({target} & slots.keys()):
            slots[base][turn[base]] = end if base is target and instr.fresh else max(slots[base][turn[base]], end)
        if target in slots:
            written[target] = end
        free[instr.pipe] = end
        ends.append(end)
    return ends


# -------------------------------------------------------------------- random programs
@settings(max_examples=500)
@given(seeds)
def test_fast_forward_is_exact(seed):
    made = RandomProgram(seed)
    nest, plain = made.nest(), made.scheduler()
    state = [0] * plain.length
    for item in unrolled(nest):
        step(state, plain.timed(item), max)
    assert made.scheduler().advance([0] * plain.length, nest) == state
    assert made.scheduler().makespan(nest) == made.scheduler().plain_makespan(nest) == max(state[: len(plain.pipes)])


@settings(max_examples=200)
@given(seeds)
def test_the_schedule_follows_the_rule_as_it_is_written(seed):
    made = RandomProgram(seed)
    nest = made.nest()
    assert [end for _, _, end in made.scheduler().events(nest)] == rule(made.phase, made.cycles, nest)


@settings(max_examples=200)
@given(seeds)
def test_longest_pipe_bounds_the_makespan_from_below_and_their_sum_from_above(seed):
    made = RandomProgram(seed)
    busy = made.scheduler().busy(made.nest()).values()
    assert max(busy) <= made.scheduler().makespan(made.nest()) <= sum(busy)


@settings(max_examples=200)
@given(seeds, st.booleans())
def test_more_slots_are_never_slower(seed, every):
    made = RandomProgram(seed)
    before = made.scheduler().makespan(made.nest())
    for buffer in made.buffers if every else [made.chance.choice(made.buffers)]:
        buffer.slots += made.chance.randint(1, 2)
    assert made.scheduler().makespan(made.nest()) <= before


@settings(max_examples=150)
@given(seeds)
def test_a_faster_instruction_never_makes_a_phase_slower(seed):
    made = RandomProgram(seed)
    before = made.scheduler().makespan(made.nest())
    for instr in made.prices:
        made.prices[instr] = made.chance.randint(0, made.prices[instr])
    assert made.scheduler().makespan(made.nest()) <= before


@settings(max_examples=150)
@given(seeds)
def test_busy_cycles_count_every_execution(seed):
    made = RandomProgram(seed)
    busy = dict.fromkeys(made.scheduler().pipes, 0)
    for item in unrolled(made.nest()):
        busy[item.instr.pipe] += made.cycles(item)
    assert made.scheduler().busy(made.nest()) == busy


@settings(max_examples=60)
@given(seeds, st.integers(1, 5))
def test_a_nest_has_the_tiles_that_the_executor_runs(seed, cores):
    """The nest of every core, unrolled, is what a walk over the places of every loop executes."""
    made = RandomProgram(seed)
    sizes = made.sizes | {Variable(loop.name, "parts"): cores for loop in made.phase.loops() if loop.split}
    nests = Nests(made.phase, sizes)

    def walked(body, env, parts):
        for node in body:
            if isinstance(node, Instr):
                yield node, tile_sizes(env)
                continue
            count, part = parts.get(node, (1, 0))
            if part < 0:
                continue
            for place in tiles(node, env, count, part):
                yield from walked(node.body, {**env, Variable(node.name, "size"): place.size}, parts)

    for core in range(cores):
        expected = list(walked(made.phase.body, sizes, parts_of(made.phase, sizes, core)))
        seen = [(s.instr, tile_sizes(s.sizes)) for s in unrolled(nests.core(core))]
        assert seen == expected
    distinct = nests.distinct(cores)
    assert sum(count for *_, count in distinct) == cores
    whole = made.scheduler()
    assert {whole.makespan(nest) for nest, *_ in distinct} == {whole.makespan(nests.core(c)) for c in range(cores)}


def test_millions_of_tiles_take_no_time():
    phase, nest = streamed(2, n=2**24)
    assert Scheduler(phase, price(COSTS)).makespan(nest) == 10 * 2**24 + 4 + 6


# -------------------------------------------------------------------- worked out by hand
COSTS = {"xIn": 10, "adds": 4, "out": 6}
"""Copy in, compute, copy out [cycles]."""


def streamed(slots, n=N, *, in_place=False):
    """n tiles of: load, add one, store."""
    x, out = tensor("x", n, 8), tensor("out", n, 8, role="output")
    phase = Phase("p", "vector", kernel(x, out))
    for i in phase.loop("i", n):
        a = phase.load(x[i.start], name="xIn", slots=slots)
        b = phase.adds(a, 1.0, out=a) if in_place else phase.adds(a, 1.0, name="sum", slots=slots)
        phase.store(b, out[i.start])
    return phase, Nests(phase, {}).core(0)


def makespan(phase, nest, costs):
    plain, fast = Scheduler(phase, price(costs)), Scheduler(phase, price(costs))
    assert plain.plain_makespan(nest) == fast.makespan(nest)
    return fast.makespan(nest)


def test_single_buffer():
    """A load waits for the compute that reads its slot, so the two alternate; stores hide beside the next load."""
    assert makespan(*streamed(1), COSTS) == N * (10 + 4) + 6


def test_double_buffer_of_a_slow_load():
    """Loads follow each other; the last tile's compute and store come after."""
    assert makespan(*streamed(2), COSTS) == N * 10 + 4 + 6


def test_double_buffer_of_a_slow_store():
    """The first tile's load and compute come before; then stores follow each other."""
    assert makespan(*streamed(2), {"xIn": 3, "adds": 4, "out": 6}) == 3 + 4 + N * 6


def test_double_buffer_of_a_slow_compute():
    assert makespan(*streamed(2), {"xIn": 3, "adds": 9, "out": 6}) == 3 + N * 9 + 6


def test_in_place_in_one_slot_is_serial():
    """The store reads the slot that the next load takes: nothing overlaps."""
    assert makespan(*streamed(1, in_place=True), COSTS) == N * (10 + 4 + 6)


def test_in_place_in_two_slots():
    """A tile holds its slot for 10 + 4 + 6 cycles and every second tile has the same one, so a tile takes 10."""
    assert makespan(*streamed(2, in_place=True), COSTS) == N * 10 + 4 + 6


def test_in_place_in_two_slots_bound_by_the_slots():
    """load 10, compute 9, store 9: a slot is held for 28 cycles, so two tiles take 28: tile 2k ends at 28 (k + 1)."""
    costs = {"xIn": 10, "adds": 9, "out": 9}
    assert makespan(*streamed(2, n=2, in_place=True), costs) == 10 + 10 + 9 + 9
    assert makespan(*streamed(2, n=7, in_place=True), costs) == 4 * 28


def test_prologue_and_epilogue():
    """A resident buffer is loaded once; the accumulator is stored once."""
    x, w, out = tensor("x", N, 8), tensor("w", 8), tensor("out", 8, role="output")
    phase = Phase("p", "vector", kernel(x, w, out))
    resident = phase.load(w, name="wIn", slots=1)
    total = phase.buffer("total", 8)
    value = phase.fill(0.0, out=total)
    for i in phase.loop("i", N, carry=(total,)):
        value = phase.madd(phase.load(x[i.start], name="xIn"), resident, out=total)
    phase.store(value, out)
    nest = Nests(phase, {}).core(0)
    costs = {"wIn": 20, "fill": 1, "xIn": 10, "madd": 4, "out": 6}
    # w from 0 to 20; then N loads of 10 each; the last multiply-add and the store follow
    assert makespan(phase, nest, costs) == 20 + N * 10 + 4 + 6
    # slow compute: it starts with the first x at 30 and never waits again
    assert makespan(phase, nest, costs | {"madd": 15}) == 30 + N * 15 + 6


def test_resident_buffer_of_an_outer_loop_has_one_slot():
    """Two outer turns: the second load of the resident buffer waits for the last reader of the first."""
    x, w, out = tensor("x", 2, N, 8), tensor("w", 2, 8), tensor("out", 2, N, 8, role="output")
    phase = Phase("p", "vector", kernel(x, w, out))
    for o in phase.loop("o", 2):
        resident = phase.load(w[o.start], name="wIn", slots=1)
        for i in phase.loop("i", N):
            a = phase.load(x[o.start, i.start], name="xIn")
            phase.store(phase.mul(a, resident, slots=2), out[o.start, i.start])
    nest = Nests(phase, {}).core(0)
    # each turn: w 20, then N loads of 10, then the last multiplication of 4; the very last store ends it
    assert makespan(phase, nest, {"wIn": 20, "xIn": 10, "mul": 4, "out": 6}) == 2 * (20 + N * 10 + 4) + 6


def test_slots_are_freed_in_order():
    """A slot whose reader is slow holds up the slots behind it, so that more slots cannot be slower."""
    x, out = tensor("x", 8), tensor("out", 8, role="output")
    phase = Phase("p", "vector", kernel(x, out))
    a = phase.buffer("a", 8, slots=2)
    phase.store(phase.load(x, out=a), out)  # slot 1: load 0..10, store 10..110
    phase.load(x, out=a)  # slot 2: 10..20, and nobody reads it
    phase.fill(0.0, out=a)  # slot 1 again: waits for the store, 110..111
    phase.load(x, out=a)  # slot 2 again: done since 20, but slot 1 was freed only at 110
    nest = Nests(phase, {}).core(0)
    ends = [end for *_, end in Scheduler(phase, price({"a": 10, "out": 100, "fill": 1})).events(nest)]
    assert ends == [10, 110, 20, 111, 120]


def test_tail_is_priced_as_a_tail():
    """5 = 2 + 2 + 1: two full tiles and one of half the size."""
    x, out = tensor("x", 5, 8), tensor("out", 5, 8, role="output")
    phase = Phase("p", "vector", kernel(x, out))
    for i in phase.loop("i", 5, 2):
        phase.store(phase.adds(phase.load(x[i], name="xIn"), 1.0, slots=2), out[i])
    nest = Nests(phase, {}).core(0)
    assert [item.times for item in nest if isinstance(item, TileRun)] == [2, 1]
    base = {"copy": 5, "adds": 2}
    scheduler = Scheduler(phase, lambda s: base[s.instr.op] * s.sizes["i.size"])
    assert scheduler.makespan(nest) == scheduler.plain_makespan(nest)
    # loads 10, 10, 5 end at 25; the tail's compute of 2; stores: 14..24, 24..34, then 5 more
    assert scheduler.makespan(nest) == 10 + 4 + 10 + 10 + 5


def test_cube_pipes():
    """Copies to L1 and L0, multiplication and copy out of one tile, one after another."""
    x, y, out = tensor("x", 16, 16), tensor("y", 16, 16), tensor("out", 16, 16, role="output")
    phase = Phase("p", "cube", kernel(x, y, out))
    spaces = {"aL1": "l1", "bL1": "l1", "aL0": "l0a", "bL0": "l0b", "c": "l0c"}
    b = {name: phase.buffer(name, (16, 16), space=space) for name, space in spaces.items()}
    phase.clear(0.0, out=b["c"])
    left = phase.emit("copy", phase.load(x, out=b["aL1"]), out=b["aL0"])
    right = phase.emit("copy", phase.load(y, out=b["bL1"]), out=b["bL0"])
    phase.store(phase.mmad(left, right, out=b["c"]), out)
    nest = Nests(phase, {}).core(0)
    costs = {"clear": 0, "aL1": 10, "bL1": 12, "aL0": 3, "bL0": 4, "mmad": 20, "out": 8}
    assert makespan(phase, nest, costs) == 10 + 12 + 4 + 20 + 8


@pytest.mark.parametrize("gone", range(3))
def test_removing_an_instruction_changes_the_cycles(gone):
    x, out = tensor("x", N, 8), tensor("out", N, 8, role="output")

    def recorded(kept):
        phase = Phase("p", "vector", kernel(x, out))
        for i in phase.loop("i", N):
            value = phase.load(x[i.start], name="xIn")
            for k in kept:
                value = phase.muls(value, float(k), out=value)
            phase.store(value, out[i.start])
        return phase, Nests(phase, {}).core(0)

    costs = {"xIn": 10, "muls": 6, "out": 6}
    assert makespan(*recorded([k for k in range(3) if k != gone]), costs) < makespan(*recorded(range(3)), costs)
