"""Sizes: construction keeps the value, and arrays give what ints give, however large."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilesim.program.sizes import (
    Size,
    bit_length,
    ceil_div,
    dim,
    exact,
    floor_div,
    maximum,
    minimum,
    mod,
    pow2,
    pow2_floor,
)

NAMES = ("A", "B", "C")
VALUES = st.one_of(st.integers(-40, 40), st.integers(-(2**62), 2**62))
LEAVES = st.one_of(st.integers(-9, 9), st.sampled_from(NAMES))
PLAIN = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "ceil": lambda a, n: -(-a // n),
    "floor": lambda a, n: a // n,
    "mod": lambda a, n: a % n,
    "max": max,
    "min": min,
    "bits": lambda a: a.bit_length(),
    "pow2": lambda a: 2 ** math.ceil(math.log2(a)) if 0 < a < 2**40 else 1 << max(a - 1, 0).bit_length(),
    "pow2_floor": lambda a: next((2**i for i in range(200, -1, -1) if 2**i <= a), 0),
}
BUILT = {
    **{name: PLAIN[name] for name in "+-*"},
    "ceil": ceil_div,
    "floor": floor_div,
    "mod": mod,
    "max": maximum,
    "min": minimum,
    "bits": bit_length,
    "pow2": pow2,
    "pow2_floor": pow2_floor,
}


def nodes(children):
    binary = st.tuples(st.sampled_from(["+", "-", "*", "max", "min"]), children, children)
    rounded = st.tuples(st.sampled_from(["ceil", "floor", "mod"]), children, st.integers(1, 33))
    unary = st.tuples(st.sampled_from(["bits", "pow2", "pow2_floor"]), children)
    return st.one_of(binary, rounded, unary)


TREES = st.recursive(LEAVES, nodes, max_leaves=8)


def built(tree):
    if isinstance(tree, tuple):
        return BUILT[tree[0]](*(built(child) for child in tree[1:]))
    return dim(tree) if isinstance(tree, str) else Size.of(tree)


def plain(tree, env):
    if isinstance(tree, tuple):
        return PLAIN[tree[0]](*(plain(child, env) for child in tree[1:]))
    return env[tree] if isinstance(tree, str) else tree


@given(tree=TREES, rows=st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=5))
def test_a_size_has_the_value_of_the_formula_that_builds_it_for_ints_and_arrays(tree, rows):
    try:
        size = Size.of(built(tree))
        expected = [plain(tree, dict(zip(NAMES, row, strict=True))) for row in rows]
    except (OverflowError, MemoryError):
        return
    assert [size.bind(dict(zip(NAMES, row, strict=True))) for row in rows] == expected
    first = dict(zip(NAMES, rows[0], strict=True))
    assert size.substitute({"A": first["A"]}).bind(first) == expected[0]
    columns = {name: np.array(values) for name, values in zip(NAMES, zip(*rows, strict=True), strict=True)}
    values = size.bind(exact(columns, size))
    assert np.broadcast_to(values, len(rows)).tolist() == expected
    bounds = {name: max(abs(int(v)) for v in column) for name, column in columns.items()}
    assert all(abs(value) <= size.magnitude(bounds) for value in expected)
