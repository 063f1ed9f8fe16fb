"""Every rule of every operator: it holds for a good call, and there is a call that breaks it."""

import pytest

from tilesim.chip.loading import load_chip
from tilesim.feasibility.evaluate import findings, passes
from tilesim.operators.binding import bind
from tilesim.operators.calls import call_with
from tilesim.operators.shapes import TensorSpec
from tilesim.ops import load_operator, operators_shipped

PR = load_chip("ascend950pr")
GOOD = {
    "text_gated_residual_grad": {"B": 2, "S": 3, "C": 4, "H": 32, "R": 16},
    "text_gated_residual": {"B": 2, "S": 3, "C": 4, "H": 32, "R": 16},
    "masked_causal_conv1d_backward": {"S": 8, "B": 2, "H": 384, "mask": True},
    "masked_causal_conv1d": {"S": 8, "B": 2, "H": 384, "mask": True},
    "glu_backward": {"self": (2, 4, 6)},
    "glu": {"self": (2, 4, 6)},
}
"""A call that passes, for each operator whose rules break in ways that are not the usual ones."""
SPECIAL = {
    "ub": lambda op: (GOOD[op], PR.override({"memory.ub.size_bytes": 8192})),
    "rows of a buffer": lambda _: ({"self": TensorSpec((64, 17538), "float16")}, PR),
    "channels divide x": lambda op: (GOOD[op] | {"channels": 3}, PR),
    "dim range": lambda op: (GOOD[op] | {"dim": 3}, PR),
    "split axis even": lambda _: ({"self": (2, 4, 5)}, PR),
    "self sizes": lambda _: ({"self": (-2, 4)}, PR),
    "product": lambda op: (GOOD[op], load_chip("ascend310b1")),
}
RULES = [(op, rule) for op in operators_shipped() if op in GOOD for rule in ("product", *load_operator(op).rules)]


def name_of(rule):
    return rule if isinstance(rule, str) else rule.name


def breaking(op_name, rule):
    """Calls of which at least one should break the rule: one change each to a call that passes."""
    op = load_operator(op_name)
    if name_of(rule) in SPECIAL:
        shape, chip = SPECIAL[name_of(rule)](op_name)
        yield bind(op, shape), chip
        return
    good = bind(op, GOOD[op_name])
    if rule.parameter in op.arguments:
        spec = good.spec(rule.parameter)
        others = [
            None,
            TensorSpec(spec.shape, "int32"),
            TensorSpec((*spec.shape, *[1] * 9), spec.dtype),
            TensorSpec((), spec.dtype),
            *(
                TensorSpec((*spec.shape[:i], spec.shape[i] + 1, *spec.shape[i + 1 :]), spec.dtype)
                for i in range(len(spec.shape))
            ),
        ]
        for other in others:
            yield call_with(op, good.dtype, {**good.specs, rule.parameter: other}, good.options, good.attributes), PR
    if rule.over and all(name in GOOD[op_name] or name == "W" for name in rule.over):
        for value in (-1, 0, 2, 8, 33, 656, 385, 2**19, 2**62 + 1, 2**63):
            yield bind(op, GOOD[op_name] | dict.fromkeys(rule.over, value)), PR


@pytest.mark.parametrize("name", operators_shipped())
def test_a_good_call_breaks_no_rule(name):
    if name in GOOD:
        assert passes(bind(load_operator(name), GOOD[name]), PR)


@pytest.mark.parametrize(("op", "rule"), RULES, ids=lambda value: value if isinstance(value, str) else value.name)
def test_every_rule_can_be_broken(op, rule):
    broken = []
    for call, chip in breaking(op, rule):
        all_of_them = findings(call, chip)
        broken += [f for f in all_of_them if not f.ok and f.name == name_of(rule)]
    assert broken, f"nothing breaks {name_of(rule)}"
    assert all(f.expected and f.given for f in broken)


@pytest.mark.parametrize(("op", "rule"), RULES, ids=lambda value: value if isinstance(value, str) else value.name)
def test_every_rule_names_what_it_is_about(op, rule):
    if isinstance(rule, str):
        return
    known = {*load_operator(op).arguments, *(a.name for a in load_operator(op).attributes), "platform"}
    assert rule.parameter in known
    assert rule.status is not None
    assert rule.over - set(PR.keys()) <= load_operator(op).sizes.keys()
