"""One step of AdamW with decoupled weight decay; `step` counts from 1 for the bias correction.

The results overwrite var, m and v.
"""

from __future__ import annotations

from tilesim.kernels import Kernel, Scalar, attribute, flat_tiles, pointwise
from tilesim.operators import Attribute, Option, result

LR, DECAY, EPSILON = attribute("lr"), attribute("weight_decay"), attribute("epsilon")
BETA1, BETA2 = attribute("beta1"), attribute("beta2")


def unbiased(beta: str) -> Scalar:
    """Factor 1 / (1 - beta^step), which corrects the bias of a moving mean."""
    return 1 / (1 - attribute(beta) ** attribute("step"))


def kernel(k: Kernel) -> None:
    """Record the phase."""
    k.overwrites.update(varOut="var", mOut="m", vOut="v")
    with k.vector("adam_w") as p:
        for t in flat_tiles(k, p):
            var, grad, m, v = (t.load(name) for name in ("var", "grad", "m", "v"))
            if k.options["maximize"]:
                grad = p.muls(grad, -1.0, out=grad)
            var = p.muls(var, 1 - LR * DECAY, out=t.room("varOut"))
            mean, work = t.room("mOut"), t.buffer("work")
            m = p.add(p.muls(m, BETA1, out=mean), p.muls(grad, 1 - BETA1, out=work), out=mean)
            t.store(m, "mOut")
            square = t.room("vOut")
            squared = p.muls(p.mul(grad, grad, out=work), 1 - BETA2, out=work)
            v = p.add(p.muls(v, BETA2, out=square), squared, out=square)
            t.store(v, "vOut")
            divisor = p.adds(p.sqrt(p.muls(v, unbiased("beta2"), out=work), out=work), EPSILON, out=work)
            change = p.muls(m, unbiased("beta1"), out=grad)
            change = p.muls(p.div(change, divisor, out=work), -LR, out=work)
            t.store(p.add(var, change, out=var), "varOut")


adam_w = pointwise(
    "adam_w",
    kernel,
    api="aclnnApplyAdamW",
    about="one step of AdamW",
    inputs="var grad m v",
    positive="v",
    outputs=(result("varOut", "*X"), result("mOut", "*X"), result("vOut", "*X")),
    attributes=(
        Attribute("lr", default=1e-3),
        Attribute("beta1", default=0.9),
        Attribute("beta2", default=0.999),
        Attribute("weight_decay", default=0.0),
        Attribute("epsilon", default=1e-8),
        Attribute("step", default=1),
    ),
    options=(Option("maximize", default=False),),
    kernel_names=("AdamW", "ApplyAdamW", "ApplyAdamWV2"),
    accuracy_class="elementwise",
)
