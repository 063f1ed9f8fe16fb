"""Formulas of files: the sizes that kernels compute with are what exact fractions say, for numbers and for arrays."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesim.errors import BadInput
from tilesim.operators.formula import formula

NAMES = ("N", "H", "B")
LEAVES = st.sampled_from(NAMES) | st.integers(1, 40).map(str)
FUNCTIONS = {
    "ceil": math.ceil,
    "floor": math.floor,
    "max": max,
    "min": min,
    "align": lambda x, n: math.ceil(Fraction(x) / n) * n,
    "pow2": lambda x: next(2**i for i in range(200) if 2**i >= x),
    "pow2_floor": lambda x: max((2**i for i in range(200) if 2**i <= x), default=0),
}


def joined(inner):
    two = st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner)
    return (
        two.map(lambda t: f"({t[0]} {t[1]} {t[2]})")
        | inner.map(lambda x: f"(-{x})")
        | st.tuples(st.sampled_from(["ceil", "floor", "pow2", "pow2_floor"]), inner).map("{0[0]}({0[1]})".format)
        | st.tuples(st.sampled_from(["max", "min", "align"]), inner, inner).map("{0[0]}({0[1]}, {0[2]})".format)
    )


def exact(text, sizes):
    """The value in fractions, None where it divides by 0."""
    numbers = {name: Fraction(value) for name, value in sizes.items()}
    tokens = "".join(f" {word} " if word in ("(", ")", ",") else word for word in text)
    quoted = " ".join(f"F({word})" if word.isdigit() else word for word in tokens.replace("-", " - ").split())
    try:
        return Fraction(eval(quoted, {"F": Fraction, **FUNCTIONS, **numbers}))
    except ZeroDivisionError:
        return None


@given(st.recursive(LEAVES, joined, max_leaves=8), st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(1, 5000))))
def test_a_formula_is_exact(text, sizes):
    expected = exact(text, sizes)
    if expected is None:
        return  # what cancels out may have a value, such as N % N // (N - N)
    read = formula(text)
    if expected.denominator == 1:
        assert read.value(sizes) == expected
        assert read.size.bind(sizes) == expected
    else:
        with pytest.raises(BadInput, match="not a whole number"):
            read.value(sizes)


@pytest.mark.parametrize(
    "text", ["ceil(N/B) * H", "max(N/2, 3*H) + N % B", "align(pow2(N), B)", "floor(N/B + 1/2)", "min(H, N // B)"]
)
def test_arrays_are_as_numbers(text):
    chance = np.random.default_rng(3)
    sizes = {name: 2 * chance.integers(1, 3000, 200) for name in NAMES}
    points = [dict(zip(NAMES, map(int, at), strict=True)) for at in zip(*sizes.values(), strict=True)]
    assert np.asarray(formula(text).size.bind(sizes)).tolist() == [formula(text).value(point) for point in points]
