"""Reference of the gradient of the linear unit gated with gelu, and how far a kernel may be from it.

The inputs need not be of one forward: `gelu` is a tensor of its own.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf, expit

from tests.reference.call import Call, Plan
from tests.reference.formats import Array, Inputs, Outputs, ulp, widened
from tests.reference.glu import halves
from tests.reference.tolerance import Measurement, _elementwise, _finite, _judged

ULPS = {"bfloat16": 0.55, "float16": 1.6, "float32": 2.0}
TANH_ULPS = 30.0
SHARE = 3e-7


def slope(v: Array, *, tanh: bool) -> Array:
    """Return the derivative of gelu, as that of v*s(u(v)) or of v*Phi(v)."""
    if tanh:
        inner = 2 * np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)
        rising = 2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * v**2)
        return expit(inner) + v * expit(inner) * expit(-inner) * rising
    return (1 + erf(v / np.sqrt(2))) / 2 + v * np.exp(-(v**2) / 2) / np.sqrt(2 * np.pi)


def placed(call: Call, plain: Array, active: Array) -> Array:
    """Return the halves where they belong along dim."""
    pair = [active, plain] if call.attributes["activate_left"] else [plain, active]
    return np.concatenate(pair, axis=call.attributes["dim"])


def parted(call: Call, inputs: Inputs) -> tuple[Array, Array]:
    """Return the plain and the activated half of x."""
    first, second = halves(inputs["x"], call.attributes["dim"])
    return (second, first) if call.attributes["activate_left"] else (first, second)


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `dx`: gelu*dy of the plain half, dy*P*gelu'(V) of the activated one."""
    plain, v = parted(call, inputs)
    upstream = widened(inputs["dy"])
    steep = slope(v, tanh=call.attributes["approximate"] == 1)
    return {"dx": placed(call, widened(inputs["gelu"]) * upstream, upstream * plain * steep)}


def compare(plan: Plan, inputs: Inputs, outputs: Inputs, values: Outputs) -> list[Measurement]:
    """Return the worst error of `dx` in units of its ulps plus 3e-7 of |gelu*dy| and |dy*P|."""
    call, dtype = plan.call, plan.call.dtype
    plain, _ = parted(call, inputs)
    upstream = np.abs(widened(inputs["dy"]))
    scale = placed(call, upstream * np.abs(widened(inputs["gelu"])), upstream * np.abs(plain))
    ulps = TANH_ULPS if dtype == "float32" and call.attributes["approximate"] == 1 else ULPS[dtype]
    result, reference = _finite(outputs["dx"], values["dx"], dtype)
    allowed = ulps * np.where(reference == 0, 0.0, ulp(reference, dtype)) + SHARE * scale
    return _judged(
        "ge_glu_grad_v2", dtype, [_elementwise("dx", "error over its tolerance", result, reference, allowed)]
    )
