"""Element types and the one place where values are rounded."""

import warnings

import ml_dtypes
import numpy as np
import pytest

from tilesim.errors import BadInput
from tilesim.program.dtypes import DTYPES, dtype_named, itemsize, numpy_dtype, rounded


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_name_means_itself_and_its_size_is_that_of_numpy(dtype):
    assert dtype_named(dtype) == dtype == dtype_named(f" torch.{dtype.upper()} ")
    assert itemsize(dtype) == numpy_dtype(dtype).itemsize == np.zeros(1, numpy_dtype(dtype)).nbytes


@pytest.mark.parametrize(
    ("alias", "dtype"),
    [("bf16", "bfloat16"), ("fp16", "float16"), ("half", "float16"), ("float", "float32"), ("DT_INT8", "int8")],
)
def test_what_users_write_is_understood(alias, dtype):
    assert dtype_named(alias) == dtype
    assert numpy_dtype(alias) == numpy_dtype(dtype)


def test_another_word_is_refused_with_a_hint():
    with pytest.raises(BadInput, match="dtype: 'bfloat17' is not a dtype; did you mean 'bfloat16'"):
        dtype_named("bfloat17")
    with pytest.raises(BadInput, match="dtype: 'xyz' is not a dtype; there are: float16, bfloat16"):
        itemsize("xyz")


@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", 8), ("float16", 11)])
def test_ties_go_to_even(dtype, bits):
    ulp = 2.0 ** (1 - bits)  # of numbers in [1, 2)
    ties = np.array([1 + ulp / 2, 1 + 3 * ulp / 2, 1 + ulp / 2 * 1.001, -1 - ulp / 2], np.float32)
    assert rounded(ties, dtype).astype(np.float64).tolist() == [1, 1 + 2 * ulp, 1 + ulp, -1]


def test_values_out_of_range_become_infinite_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = rounded(np.array([1e30, -1e30, np.nan], np.float32), "float16")
    assert values[0] == np.inf
    assert values[1] == -np.inf
    assert np.isnan(values[2])


def test_64_bits_are_not_rounded_twice():
    with pytest.raises(TypeError, match="round to float32 first"):
        rounded(np.zeros(2), "bfloat16")
    assert rounded(np.full(2, 1 / 3), "float32").dtype == np.float32


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_integers_are_nearest_and_stop_at_the_ends(dtype):
    limits = np.iinfo(dtype)
    values = rounded(np.array([0.5, 1.5, 2.5, 1e30, -1e30, np.nan], np.float32), dtype)
    assert values.tolist() == [0, 2, 2, limits.max, limits.min, 0]
    assert values.dtype == dtype


def test_what_has_the_dtype_already_is_not_copied():
    values = np.ones(3, ml_dtypes.bfloat16)
    assert rounded(values, "bfloat16") is values


def test_what_has_fewer_bits_is_widened_exactly():
    assert rounded(np.array([1.5], ml_dtypes.bfloat16), "float64").tolist() == [1.5]
    assert rounded(np.array([True, False]), "int32").tolist() == [1, 0]


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int16", "uint32", "int64", "complex64"])
def test_another_byte_order_is_told_as_such(name):
    swapped = np.dtype(name).newbyteorder("S")
    for given in (swapped, swapped.str):
        with pytest.raises(BadInput) as caught:
            dtype_named(given)
        assert str(caught.value) == f"dtype: {given!r} is {name} in another byte order; astype({name!r}) changes it"
    assert np.zeros(2, swapped).astype(name).dtype == np.dtype(name)
