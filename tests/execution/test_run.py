"""Runs: what arrays they take and make, tensors in files, inputs that are made up, differences from the reference."""

import dataclasses
import re
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from tests.sample_calls import MAIN, OPERATORS, bits, chips_of, executed, made_up, planned
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.execution.inputs import given_from_arrays, load_inputs, random_inputs
from tilesim.execution.run import run
from tilesim.execution.tensor_files import read_arrays, save_outputs
from tilesim.execution.verify import verify
from tilesim.operators.binding import bind
from tilesim.operators.operator import INPUT
from tilesim.ops import load_operator
from tilesim.planning.plan import plan
from tilesim.program.dtypes import in_dtype, numpy_dtype
from tilesim.simulation.timeline import simulate

PR = load_chip("ascend950pr")
BF16 = ml_dtypes.bfloat16


def problems(one, inputs, **how):
    with pytest.raises(BadInput) as refused:
        run(one, inputs, **how)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)
    return refused.value.problems


# -------------------------------------------------------------------- arrays
def test_a_run_has_outputs_and_a_timeline():
    one = planned("glu_backward", PR, "float32")
    made = run(one, made_up(one))
    shape = one.call.spec("self").shape
    assert {n: (x.shape, x.dtype) for n, x in made.outputs.items()} == {"out": (shape, np.float32)}
    assert made.timeline.cycles == simulate(one).cycles
    assert made.timeline is made.timeline
    assert made.plan is one


@pytest.mark.parametrize("name", OPERATORS)
def test_inputs_may_have_any_strides(name):
    chip = chips_of(load_operator(name))[-1]
    one = planned(name, chip, load_operator(name).dtypes[chip.family][0])
    inputs = made_up(one)
    expected = bits(executed(one, inputs))
    fortran = {n: np.asfortranarray(x) for n, x in inputs.items()}
    gaps = {n: np.repeat(np.repeat(x, 2, axis=0), 3, axis=-1)[::2, ..., ::3] for n, x in inputs.items() if x.ndim > 1}
    backwards = {n: np.ascontiguousarray(x[..., ::-1])[..., ::-1] for n, x in inputs.items()}
    for other in (fortran, {**inputs, **gaps}, backwards):
        assert bits(executed(one, other)) == expected


@pytest.mark.parametrize("name", OPERATORS)
def test_outputs_are_overwritten_whatever_their_strides(name, tmp_path):
    op = load_operator(name)
    chip = chips_of(op)[-1]
    one = planned(name, chip, op.dtypes[chip.family][0])
    inputs = made_up(one)
    before = bits(inputs)
    expected = executed(one, inputs)
    kinds = {
        "full": lambda x: np.full(x.shape, 3, x.dtype),
        "gaps": lambda x: np.full((*x.shape[:-1], 2 * x.shape[-1]), 3, x.dtype)[..., ::2],
        "fortran": lambda x: np.asfortranarray(np.full(x.shape, 3, x.dtype)),
        "file": lambda x: np.memmap(tmp_path / "out", x.dtype, "w+", shape=x.shape),
    }
    for make in kinds.values():
        for key in expected:  # one of them, the others are made
            mine = make(expected[key])
            made = run(one, inputs, outputs={key: mine}).outputs
            assert np.array_equal(bits({key: mine})[key], bits(expected)[key])
            assert bits(made) == bits(expected)
            assert np.shares_memory(made[key], mine)
    assert bits(inputs) == before


def test_an_output_may_be_an_input():
    one = planned("glu_backward", PR, "float32")
    inputs = made_up(one)
    expected = executed(one, inputs)["out"]
    assert np.array_equal(run(one, inputs, outputs={"out": inputs["self"]}).outputs["out"], expected)
    assert np.array_equal(inputs["self"], expected)


def test_bfloat16_may_come_as_bits_or_as_float32():
    for dtype in ("bfloat16", "float16"):
        one = planned("text_gated_residual_grad", PR, dtype)
        inputs = made_up(one)
        expected = bits(executed(one, inputs))
        forms = [{n: x.astype(np.float32) for n, x in inputs.items()}]
        if dtype == "bfloat16":
            forms += [{n: x.view(k) if x.itemsize == 2 else x for n, x in inputs.items()} for k in (np.uint16, "V2")]
        for form in forms:
            assert bits(executed(one, form)) == expected
        out = np.zeros((2, 5, 3 * 48), np.uint16 if dtype == "bfloat16" else np.float16)
        run(one, inputs, outputs={"dx": out})
        assert out.tobytes() == expected["dx"]


def test_wrong_inputs_are_all_named():
    one = planned("text_gated_residual_grad", PR, "bfloat16", inject=False)
    inputs = made_up(one)
    wrong = {
        **{n: x for n, x in inputs.items() if n != "wUp"},
        "gradMixd": inputs["gradMixed"],
        "wGate": inputs["wDown"],
        "up": inputs["up"][:, :-1],
        "x": inputs["x"].astype(np.float64),
        "downPreAct": [[1.0]],
        "wDown": np.full(inputs["wDown"].shape, 0.1, np.float32),
        "invRms": inputs["invRms"].astype(np.float64),
    }
    found = problems(one, wrong, threads=0, outputs={"dX": inputs["x"], "dx": inputs["x"][:1]})
    text = " | ".join(found)
    for part in (
        "threads is 0, must be at least 1",
        "'gradMixd' is not an input; did you mean 'gradMixed'?",
        "wGate is given, but the call has none: inject is off",
        "wUp is missing, [144, 16] bfloat16 is needed",
        "up has shape [2, 4, 144], must be [2, 5, 144]",
        "x is float64, must be bfloat16 or its bits in uint16 or exact values in float32",
        "downPreAct is a list, must be a numpy array",
        "wDown has 2,304 of 2,304 values that bfloat16 does not, such as 0.1",
        "invRms is float64, must be float32",
        "'dX' is not an output; did you mean 'dx'?",
        "dx has shape [1, 5, 144], must be [2, 5, 144]",
    ):
        assert part in text
    assert len(found) == 11


def test_wrong_outputs_are_refused_before_anything_is_written():
    one = planned("masked_causal_conv1d_backward", PR, "float16")
    inputs = made_up(one)
    frozen = np.zeros((5, 2, 384), np.float16)
    frozen.flags.writeable = False
    assert problems(one, inputs, outputs={"gradX": frozen}) == ("gradX is read-only",)
    assert "float32, must be float16" in problems(one, inputs, outputs={"gradX": np.zeros((5, 2, 384), np.float32)})[0]
    both = np.zeros(5 * 2 * 384, np.float16)
    shared = {"gradX": both.reshape(5, 2, 384), "gradWeight": both[: 3 * 384].reshape(3, 384)}
    assert problems(one, inputs, outputs=shared) == ("gradX and gradWeight share memory",)
    assert not both.any()


def test_a_result_in_another_dtype_is_refused():
    specs = {"self": np.zeros((2, 4), np.float16), "out": np.zeros((2, 2), np.float32)}
    one = plan("glu", specs, chip=PR)
    assert problems(one, {"self": specs["self"]}) == ("out is float32; the kernel writes float16 only",)


@pytest.mark.parametrize("strides", [(0, 0), (0, 4), (4, 0), (4, 4), (8, 4), (2, 8), (12, 8), (-12, 8), (-8, 4)])
def test_an_output_that_overlaps_itself_is_refused(strides):
    one = planned("glu", PR, "float32", {"self": (3, 8)})
    inputs = made_up(one)
    memory = np.zeros(64, np.float32)
    out = np.lib.stride_tricks.as_strided(memory[32:], (3, 4), strides)
    (problem,) = problems(one, inputs, outputs={"out": out})
    assert problem == f"out has strides of {list(strides)} B, under which its elements share memory"
    assert not memory.any()


@pytest.mark.parametrize("strides", [(16, 4), (4, 12), (-16, -4), (32, 8), (12, 40), (12, 16), (8, 12)])
def test_an_output_of_odd_strides_that_does_not_overlap_is_written(strides):
    one = planned("glu", PR, "float32", {"self": (3, 8)})
    inputs = made_up(one)
    addresses = np.add.outer(np.arange(3) * strides[0], np.arange(4) * strides[1])
    assert len(np.unique(addresses)) == addresses.size
    out = np.lib.stride_tricks.as_strided(np.zeros(128, np.float32)[64:], (3, 4), strides)
    assert run(one, inputs, outputs={"out": out}).outputs["out"] is out
    assert np.array_equal(out, executed(one, inputs)["out"])


@pytest.mark.parametrize("threads", ["2", None, True, 1.5])
def test_threads_is_a_whole_number(threads):
    one = planned("glu", PR, "float32")
    assert problems(one, made_up(one), threads=threads) == (f"threads is {threads!r}, must be a whole number",)
    assert run(one, made_up(one), threads=np.int64(2)).outputs


@pytest.mark.parametrize("arrays", [None, [1], 3])
def test_what_maps_no_names_is_one_problem(arrays):
    one = planned("glu", PR, "float32")
    (problem,) = problems(one, arrays)
    assert problem.startswith("inputs is ")
    assert problem.endswith(", must be a mapping with names as keys")
    if arrays is not None:
        (problem,) = problems(one, made_up(one), outputs=arrays)
        assert problem.startswith("outputs is ")
        assert problem.endswith(", must be a mapping with names as keys or None")
    assert problems(one, made_up(one), outputs={3: np.zeros(3)}) == ("outputs has the key 3, must be a text",)


@pytest.mark.parametrize("seed", [-1, "0", None, 1.5])
def test_a_seed_is_a_whole_number(seed):
    one = planned("glu", PR, "float32")
    with pytest.raises(BadInput, match="must be a whole number of at least 0"):
        random_inputs("glu", one.call, seed, chip=PR)


# -------------------------------------------------------------------- names
@pytest.mark.parametrize("name", OPERATORS)
def test_every_name_of_a_tensor_is_taken(name, tmp_path):
    op = load_operator(name)
    chip = chips_of(op)[-1]
    options = {"mask": True} if "mask" in {o.name for o in op.options} else {}
    one = planned(name, chip, op.dtypes[chip.family][0], **options)
    inputs = made_up(one)
    expected = executed(one, inputs)

    def snake(word):
        return re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", word)

    for other in (lambda t: t.alias or t.name, lambda t: snake(t.name)):
        names = {t.name: other(t) for t in op.tensors}
        renamed = {names[n]: x for n, x in inputs.items()}
        outputs = {names[n]: np.zeros_like(x) for n, x in expected.items()}
        assert bits(run(one, renamed, outputs=outputs).outputs) == bits(expected)
        assert bits(outputs) == {names[n]: b for n, b in bits(expected).items()}
        path = save_outputs(tmp_path / "in.safetensors", {**renamed, **outputs})
        told = given_from_arrays(op, read_arrays(path))
        assert {n: s for n, s in told.items() if s} == {n: one.call.spec(n) for n in inputs}
        assert bits(load_inputs(path, op, one.call)) == bits(inputs)
        if op.reference:
            assert verify(run(one, renamed), one, renamed)


def test_one_tensor_under_two_names_is_given_twice():
    one = planned("masked_causal_conv1d_backward", PR, "float16", mask=True)
    inputs = made_up(one)
    assert problems(one, {**inputs, "maskOptional": inputs["mask"]}) == ("mask is given twice",)
    outputs = {n: np.zeros_like(inputs["x"]) for n in ("gradX", "gradXOut")}
    assert problems(one, inputs, outputs=outputs) == ("gradX is given twice",)
    with pytest.raises(BadInput, match="mask is given twice"):
        given_from_arrays(one.operator, {**inputs, "maskOptional": inputs["mask"]})


def test_progress_counts_the_cores_of_every_phase():
    one = planned("text_gated_residual_grad", PR, "bfloat16")
    seen = []
    run(one, made_up(one), progress=lambda *what: seen.append(what))
    assert [p for p, _, _ in seen] == [p.phase.name for p in one.phases for _ in range(p.cores)]
    assert [(done, cores) for p, done, cores in seen if p == "gate backward"] == [(i + 1, 10) for i in range(10)]


# -------------------------------------------------------------------- memory
def mapped(folder, name, array):
    file = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", array.dtype, array.shape)
    file[...] = array
    file.flush()


def test_files_are_read_and_written_tile_by_tile(tmp_path):
    sizes = {"S": 4096, "B": 4, "H": 384, "mask": True}
    one = plan("masked_causal_conv1d_backward", sizes, chip=PR)
    inputs = made_up(one)
    for name, array in inputs.items():
        mapped(tmp_path, name, array)
    plain = executed(one, inputs)
    whole = inputs["x"].nbytes
    del inputs
    loaded = load_inputs(tmp_path, one.operator, one.call)
    out = np.memmap(tmp_path / "gradX", BF16, "w+", shape=plain["gradX"].shape)
    tracemalloc.start()
    try:
        made = run(one, loaded, outputs={"gradX": out})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < whole / 4, "a tensor was copied whole"
    assert peak < 3 * PR.memory.ub.size_bytes + 2**20
    assert bits(made.outputs) == bits(plain)
    assert out.tobytes() == plain["gradX"].tobytes()


# -------------------------------------------------------------------- files
@pytest.mark.parametrize("ending", [".npz", ".safetensors", ""])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", [n for n in MAIN if n.startswith(("text", "mask"))])
def test_files_hold_what_was_saved(name, dtype, ending, tmp_path):
    options = {"mask": True} if name.startswith("mask") else {}
    one = planned(name, PR, dtype, **options)
    inputs = made_up(one)
    path = save_outputs(tmp_path / f"tensors{ending}", inputs)
    loaded = load_inputs(path, name, one.call)
    assert bits(loaded) == bits(inputs)
    assert {n: (x.shape, x.dtype) for n, x in loaded.items()} == {n: (x.shape, x.dtype) for n, x in inputs.items()}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    told = given_from_arrays(name, read_arrays(path), None if ending == ".safetensors" else dtype)
    channels = {"C": 3} if name == "text_gated_residual" else {}
    call = bind(one.operator, {**told, **channels})
    assert (call.dims, call.dtype, call.options) == (one.call.dims, dtype, one.call.options)


def test_glu_in_files(tmp_path):
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        one = planned("glu_backward", PR, dtype, {"self": (3, 4, 2), "dim": 1})
        arrays = {**made_up(one), "dim": np.array(1), "out": np.zeros((3, 4, 2), np.float32)}
        path = save_outputs(tmp_path / "in.npz", arrays)
        call = bind(one.operator, given_from_arrays("glu_backward", read_arrays(path), dtype))
        assert (call.dims, call.attributes, call.dtype) == (one.call.dims, {"dim": 1}, dtype)
        assert set(load_inputs(path, "glu_backward", call)) == {"self", "gradOut"}


def test_files_of_other_writers(tmp_path):
    one = planned("masked_causal_conv1d", PR, "bfloat16", mask=True)
    inputs = made_up(one)
    np.savez(tmp_path / "void.npz", **inputs)  # numpy writes bfloat16 as two-byte void
    np.savez(tmp_path / "bits.npz", **{n: x.view(np.uint16) if x.dtype == BF16 else x for n, x in inputs.items()})
    safetensors.numpy.save_file(inputs, tmp_path / "safe.safetensors")
    safetensors.numpy.save_file(dict(np.load(tmp_path / "bits.npz")), tmp_path / "bits.safetensors")
    for file in ("void.npz", "bits.npz", "safe.safetensors", "bits.safetensors"):
        arrays = read_arrays(tmp_path / file)
        call = bind(one.operator, given_from_arrays("masked_causal_conv1d", arrays))
        assert call.dtype == "bfloat16"
        assert bits(load_inputs(tmp_path / file, one.operator, call)) == bits(inputs)
    saved = save_outputs(tmp_path / "mine.safetensors", inputs)
    assert bits(safetensors.numpy.load_file(saved)) == bits(inputs)


def test_the_dtype_of_exact_values_is_found():
    values = np.linspace(-1, 1, 6 * 4).reshape(6, 4)
    for dtype in ("bfloat16", "float16"):
        arrays = {
            n: values[: 3 if n == "weight" else 6].astype(np.float32).astype(numpy_dtype(dtype)).astype(np.float32)
            for n in ("x", "weight")
        }
        arrays["x"] = arrays["x"].reshape(3, 2, 4)
        assert given_from_arrays("masked_causal_conv1d", arrays)["x"].dtype == dtype


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
def test_broken_files_are_refused(ending, tmp_path):
    one = planned("glu", PR, "float32")
    path = save_outputs(tmp_path / f"a{ending}", made_up(one))
    whole = path.read_bytes()
    for broken in (b"", whole[:7], whole[: len(whole) // 2], b"\xff" * 100, b"PK\x03\x04" + b"\0" * 60):
        path.write_bytes(broken)
        with pytest.raises(BadInput, match="cannot be read: ") as refused:
            load_inputs(path, "glu", one.call)
        assert "pickle" not in str(refused.value)


def test_what_is_wrong_with_a_file_is_said_in_our_words(tmp_path):
    def said(path):
        with pytest.raises(BadInput) as refused:
            read_arrays(path)
        (problem,) = refused.value.problems
        return problem

    (tmp_path / "a.npz").write_text("hello")
    assert said(tmp_path / "a.npz") == "cannot be read: it is not a .npz archive of arrays"
    np.save(tmp_path / "b.npy", np.zeros(3))
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    assert said(tmp_path / "b.npz") == "cannot be read: it is not a .npz archive of arrays"
    objects = np.array([{}, {}], dtype=object)
    np.savez(tmp_path / "c.npz", x=objects)
    assert said(tmp_path / "c.npz") == "cannot be read: x.npy holds Python objects, not numbers"
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "x.npy", objects)
    assert said(folder) == "cannot be read: x.npy holds Python objects, not numbers"
    (folder / "x.npy").write_text("hello")
    assert said(folder) == "cannot be read: x.npy is not a complete array in numpy's format"
    np.save(folder / "x.npy", np.zeros(100))
    (folder / "x.npy").write_bytes((folder / "x.npy").read_bytes()[:-8])
    assert said(folder) == "cannot be read: x.npy is not a complete array in numpy's format"
    (tmp_path / "d.safetensors").write_text("hello, hello")
    assert said(tmp_path / "d.safetensors").startswith("cannot be read: its header states ")
    (tmp_path / "e.safetensors").write_bytes((2).to_bytes(8, "little") + b"[]")
    assert said(tmp_path / "e.safetensors") == "cannot be read: it is not a complete .safetensors file"


def test_paths_that_are_nothing_are_refused(tmp_path):
    one = planned("glu", PR, "float32")
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "empty").mkdir()
    texts = {"a.txt": "is not a .npz file", "none.npz": "does not exist", "empty": "has no arrays"}
    for name, text in texts.items():
        with pytest.raises(BadInput, match=text):
            load_inputs(tmp_path / name, "glu", one.call)
    np.savez(tmp_path / "other.npz", sef=np.zeros((2, 4), np.float32))
    with pytest.raises(BadInput, match=r"did you mean 'self'.*self is missing"):
        load_inputs(tmp_path / "other.npz", "glu", one.call)
    np.savez(tmp_path / "objects.npz", self=np.array([{}, {}], dtype=object))
    with pytest.raises(BadInput, match="cannot be read"):
        load_inputs(tmp_path / "objects.npz", "glu", one.call)


class Explodes(np.ndarray):
    """An array that cannot be written."""

    def reshape(self, *_):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ""])
def test_nothing_is_lost_when_writing_fails(ending, tmp_path):
    path = tmp_path / f"out{ending}"
    first = {"a": np.arange(3, dtype=np.float32), "b": np.arange(4, dtype=np.float32)}
    save_outputs(path, first)
    if not ending:
        (path / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="cannot be written: no space left on device"):
        save_outputs(path, {"a": first["b"], "b": first["a"].view(Explodes)})
    assert bits(read_arrays(path)) == bits(first)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert ending or sorted(p.name for p in path.iterdir()) == ["a.npy", "b.npy", "notes.txt"]
    with pytest.raises(BadInput, match="cannot be written"):
        save_outputs(tmp_path / "no" / "such" / f"out{ending}", first)
    with pytest.raises(BadInput, match=r"ends in \.csv, must be"):
        save_outputs(tmp_path / "out.csv", first)


def test_large_and_empty_arrays_in_files(tmp_path):
    arrays = {
        "large": np.arange(2_500_000, dtype=np.float32).astype(BF16).reshape(2, -1),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "empty": np.zeros((0, 3), BF16),
        "flag": np.array([True, False]),
        "count": np.array(7),
    }
    for ending in (".npz", ".safetensors", ""):
        found = read_arrays(save_outputs(tmp_path / f"x{ending}", arrays))
        for name, array in arrays.items():
            back = found[name] if array.dtype != BF16 else in_dtype(np.asarray(found[name]), "bfloat16")
            assert (back.shape, back.dtype, back.tobytes()) == (array.shape, array.dtype, array.tobytes())


# -------------------------------------------------------------------- made up inputs, differences
@pytest.mark.parametrize("name", OPERATORS)
def test_random_inputs_repeat_and_differ_by_seed(name):
    chip = chips_of(load_operator(name))[-1]
    one = planned(name, chip, load_operator(name).dtypes[chip.family][0])
    again = [random_inputs(name, one.call, seed, chip=chip) for seed in (0, 0, 1)]
    assert bits(again[0]) == bits(again[1])
    assert bits(again[0]) != bits(again[2])
    assert set(again[0]) == {t.name for t in one.operator.tensors if t.role == INPUT and one.call.spec(t.name)}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_saved_tensors_are_those_of_the_forward(dtype):
    one = planned("text_gated_residual_grad", PR, dtype)
    inputs = made_up(one)
    forward = planned("text_gated_residual", PR, dtype)
    shared = {n: inputs[n] for n in ("x", "wDown", "wUp", "wGate", "gamma")}
    made = executed(forward, shared)
    for name in ("invRms", "downPreAct", "up", "inject"):
        assert made[name].tobytes() == inputs[name].tobytes()
    elsewhere = random_inputs(one.operator, one.call, 0, chip=load_chip("ascend910b4"))
    assert bits(elsewhere) == bits(inputs)


@pytest.mark.parametrize("name", MAIN)
def test_float16_does_not_overflow(name):
    sizes = {"B": 2, "S": 20, "C": 4, "H": 512, "R": 64} if name.startswith("text") else None
    one = planned(name, PR, "float16", sizes)
    made = run(one, made_up(one, 3))
    assert all(np.isfinite(x.astype(np.float64)).all() for x in made.outputs.values())
    assert all(difference.ok for difference in verify(made, one, made_up(one, 3)))


@pytest.mark.parametrize("name", MAIN)
def test_differences_are_seen(name):
    one = planned(name, PR, load_operator(name).dtype)
    inputs = made_up(one)
    made = run(one, inputs)
    clean = verify(made, one, inputs)
    assert [d.output for d in clean] == list(made.outputs)
    assert all(d.ok and d.tolerance.source and d.output in str(d) for d in clean)
    for key, array in made.outputs.items():
        at = np.unravel_index(array.astype(np.float32).argmax(), array.shape)
        for value in (array[at] * array.dtype.type(1.5) + array.dtype.type(1), array.dtype.type(np.nan)):
            kept = array[at].copy()
            array[at] = value
            assert [d.output for d in verify(made, one, inputs) if not d.ok] == [key]
            array[at] = kept


def test_there_is_nothing_to_compare_with():
    silent = dataclasses.replace(load_operator("copy"), reference=None)
    one = plan(silent, {"X": 64}, chip=PR)
    inputs = made_up(one)
    with pytest.raises(BadInput, match="copy: the operator has no reference to compare with"):
        verify(run(one, inputs), one, inputs)
