"""What MIL ops compute, in torch; in float32 where the program says float16."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

Given = dict[str, Any]


def _up(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype is torch.float16 else value
    return torch.tensor(value)


def _ints(value: Any) -> list[int]:
    return [int(each) for each in value]


def _one(call: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Given], torch.Tensor]:
    return lambda given: call(_up(given["x"]))


def _two(call: Callable[..., torch.Tensor]) -> Callable[[Given], torch.Tensor]:
    return lambda given: call(_up(given["x"]), _up(given["y"]))


def _reduce(call: Callable[..., torch.Tensor]) -> Callable[[Given], torch.Tensor]:
    def compute(given: Given) -> torch.Tensor:
        x = _up(given["x"])
        axes = list(range(x.dim())) if given.get("axes") is None else _ints(given["axes"])
        return call(x, dim=axes, keepdim=bool(given["keep_dims"]))

    return compute


def _linear(given: Given) -> torch.Tensor:
    bias = given.get("bias")
    return functional.linear(
        _up(given["x"]), _up(given["weight"]), None if bias is None else _up(bias)
    )


def _matmul(given: Given) -> torch.Tensor:
    x, y = _up(given["x"]), _up(given["y"])
    x = x.transpose(-1, -2) if given["transpose_x"] else x
    return x @ (y.transpose(-1, -2) if given["transpose_y"] else y)


def _sides(given: Given, rank: int) -> list[int]:
    """Padding before and after each spatial dimension, in torch's order (last first)."""
    kind = given["pad_type"]
    if kind == "valid":
        return [0] * (2 * rank)
    pairs = _ints(given["pad"]) if kind == "custom" else _same(given, rank)
    return [size for i in reversed(range(rank)) for size in pairs[2 * i : 2 * i + 2]]


def _same(given: Given, rank: int) -> list[int]:
    """Padding that keeps the sizes, at stride 1, the odd one behind."""
    assert given["pad_type"] == "same"
    assert set(_ints(given["strides"])) == {1}
    pairs = []
    for size, dilation in zip(given["weight"].shape[2:], given["dilations"], strict=True):
        whole = int(dilation) * (size - 1)
        pairs += [whole // 2, whole - whole // 2]
    return pairs


def _conv(given: Given) -> torch.Tensor:
    x, weight = _up(given["x"]), _up(given["weight"])
    rank = x.dim() - 2
    call = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]
    bias = given.get("bias")
    return call(
        functional.pad(x, _sides(given, rank)), weight, None if bias is None else _up(bias),
        stride=_ints(given["strides"]), dilation=_ints(given["dilations"]),
        groups=int(given["groups"]),
    )  # fmt: skip


def _pool(given: Given, call: Callable[..., torch.Tensor], fill: float) -> torch.Tensor:
    x = _up(given["x"])
    padded = functional.pad(x, _sides(given, x.dim() - 2), value=fill)
    ceil = bool(given["ceil_mode"])
    return call(padded, _ints(given["kernel_sizes"]), _ints(given["strides"]), ceil_mode=ceil)


def _max_pool(given: Given) -> torch.Tensor:
    call = (functional.max_pool1d, functional.max_pool2d)[given["x"].dim() - 3]
    return _pool(given, call, float("-inf"))


def _avg_pool(given: Given) -> torch.Tensor:
    sides = _sides(given, given["x"].dim() - 2)
    call = (functional.avg_pool1d, functional.avg_pool2d)[given["x"].dim() - 3]
    mean = _pool(given, call, 0.0)
    if not given["exclude_padding_from_average"] or not any(sides):
        return mean
    return mean / _pool({**given, "x": torch.ones_like(_up(given["x"]))}, call, 0.0)


def _layer_norm(given: Given) -> torch.Tensor:
    x, axes = _up(given["x"]), _ints(given["axes"])
    rank = x.dim()
    assert sorted(axis % rank for axis in axes) == list(range(rank - len(axes), rank))
    gamma, beta = given.get("gamma"), given.get("beta")
    return functional.layer_norm(
        x, x.shape[-len(axes) :], None if gamma is None else _up(gamma),
        None if beta is None else _up(beta), float(given["epsilon"]),
    )  # fmt: skip


def _batch_norm(given: Given) -> torch.Tensor:
    return functional.batch_norm(
        *(_up(given[name]) for name in ("x", "mean", "variance", "gamma", "beta")),
        eps=float(given["epsilon"]),
    )


def _gelu(given: Given) -> torch.Tensor:
    kind = {"EXACT": "none", "TANH_APPROXIMATION": "tanh"}[given["mode"]]
    return functional.gelu(_up(given["x"]), approximate=kind)


def _slice(given: Given) -> torch.Tensor:
    x = given["x"]
    masks = [
        [False] * x.dim() if given.get(name) is None else list(given[name])
        for name in ("begin_mask", "end_mask", "squeeze_mask")
    ]
    steps = [1] * x.dim() if given.get("stride") is None else _ints(given["stride"])
    places: list[Any] = []
    for axis, (begin, end) in enumerate(zip(given["begin"], given["end"], strict=True)):
        first, last, single = (bool(mask[axis]) for mask in masks)
        assert steps[axis] > 0
        places.append(
            int(begin)
            if single
            else slice(None if first else int(begin), None if last else int(end), steps[axis])
        )
    return torch.as_tensor(x)[tuple(places)]


def _pad(given: Given) -> torch.Tensor:
    pairs = _ints(given["pad"])
    flat = [size for i in reversed(range(len(pairs) // 2)) for size in pairs[2 * i : 2 * i + 2]]
    if given["mode"] == "constant":
        return functional.pad(given["x"], flat, value=given["constant_val"])
    while flat[-2:] == [0, 0]:
        flat = flat[:-2]
    return functional.pad(_up(given["x"]), flat, mode=given["mode"])


def _gather(given: Given) -> torch.Tensor:
    x, indices, axis = given["x"], torch.as_tensor(given["indices"]).long(), int(given["axis"])
    assert int(given["batch_dims"] or 0) == 0
    assert int(indices.min()) >= -x.shape[axis]
    taken = torch.index_select(x, axis, indices.reshape(-1) % x.shape[axis])
    axis %= x.dim()
    return taken.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _gather_nd(given: Given) -> torch.Tensor:
    assert int(given["batch_dims"] or 0) == 0
    return torch.as_tensor(given["x"])[tuple(given["indices"].long().unbind(-1))]


def _arg(call: Callable[..., torch.Tensor]) -> Callable[[Given], torch.Tensor]:
    return lambda given: call(_up(given["x"]), int(given["axis"]), bool(given["keep_dims"]))


def _conv_transpose(given: Given) -> torch.Tensor:
    x, bias = _up(given["x"]), given.get("bias")
    rank = x.dim() - 2
    call = (functional.conv_transpose1d, functional.conv_transpose2d)[rank - 1]
    full = call(
        x, _up(given["weight"]), None if bias is None else _up(bias),
        stride=_ints(given["strides"]), dilation=_ints(given["dilations"]),
        groups=int(given["groups"]),
    )  # fmt: skip
    sides = _sides(given, rank)
    shape = given.get("output_shape")
    for i in range(rank):
        before, after = sides[2 * (rank - 1 - i) : 2 * (rank - i)]
        size = full.shape[2 + i] - before - after if shape is None else int(shape[2 + i])
        missing = before + size - full.shape[2 + i]
        if missing > 0:
            assert bias is None, "output_padding with a bias"
            full = functional.pad(full, [0, 0] * (rank - 1 - i) + [0, missing])
        full = full.narrow(2 + i, before, size)
    return full


def _instance_norm(given: Given) -> torch.Tensor:
    gamma, beta = given.get("gamma"), given.get("beta")
    return functional.instance_norm(
        _up(given["x"]), weight=None if gamma is None else _up(gamma),
        bias=None if beta is None else _up(beta), eps=float(given["epsilon"]),
    )  # fmt: skip


def _scatter(given: Given) -> torch.Tensor:
    x, indices, axis = _up(given["data"]).clone(), given["indices"].long(), int(given["axis"])
    if given["mode"] == "add":
        return x.scatter_add(axis, indices, _up(given["updates"]))
    assert given["mode"] == "update"
    return x.scatter(axis, indices, _up(given["updates"]))


def _scatter_nd(given: Given) -> torch.Tensor:
    places = tuple(given["indices"].long().unbind(-1))
    assert given["mode"] in ("update", "add")
    return _up(given["data"]).index_put(
        places, _up(given["updates"]), accumulate=given["mode"] == "add"
    )


def _sdpa(given: Given) -> torch.Tensor:
    mask = given.get("attn_mask")
    parts = (_up(given[name]) for name in ("query", "key", "value"))
    return functional.scaled_dot_product_attention(
        *parts, attn_mask=None if mask is None else _up(mask)
    )


def _cumsum(given: Given) -> torch.Tensor:
    assert not given["exclusive"]
    assert not given["reverse"]
    return _up(given["x"]).cumsum(int(given["axis"]))


def _squeeze(given: Given) -> torch.Tensor:
    axes = given.get("axes")
    return given["x"].squeeze() if axes is None else given["x"].squeeze(tuple(_ints(axes)))


def _expand(given: Given) -> torch.Tensor:
    x = torch.as_tensor(given["x"])
    rank = x.dim() + len(given["axes"])
    for axis in sorted(axis % rank for axis in _ints(given["axes"])):
        x = x.unsqueeze(axis)
    return x


def _split(given: Given) -> list[torch.Tensor]:
    sizes = given.get("split_sizes")
    x, axis = given["x"], int(given["axis"])
    if sizes is None:
        return list(torch.chunk(x, int(given["num_splits"]), axis))
    return list(torch.split(x, _ints(sizes), axis))


def _softmax(given: Given) -> torch.Tensor:
    return torch.softmax(_up(given["x"]), int(given["axis"]))


def _clip(given: Given) -> torch.Tensor:
    return _up(given["x"]).clamp(float(given["alpha"]), float(given["beta"]))


def _concat(given: Given) -> torch.Tensor:
    assert not given["interleave"]
    return torch.cat([torch.as_tensor(each) for each in given["values"]], int(given["axis"]))


OPS: dict[str, Callable[[Given], Any]] = {
    "abs": _one(torch.abs),
    "add": _two(torch.add),
    "atan": _one(torch.atan),
    "avg_pool": _avg_pool,
    "batch_norm": _batch_norm,
    "cast": lambda given: torch.as_tensor(given["x"]),
    "ceil": _one(torch.ceil),
    "clamped_relu": lambda given: functional.leaky_relu(
        _up(given["x"]), float(given["alpha"])
    ).clamp(max=float(given["beta"])),
    "clip": _clip,
    "concat": _concat,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "cos": _one(torch.cos),
    "cumsum": _cumsum,
    "elu": lambda given: functional.elu(_up(given["x"]), float(given["alpha"])),
    "equal": _two(torch.eq),
    "erf": _one(torch.erf),
    "exp": _one(torch.exp),
    "expand_dims": _expand,
    "fill_like": lambda given: torch.full_like(_up(given["ref_tensor"]), given["value"]),
    "floor": _one(torch.floor),
    "floor_div": _two(lambda x, y: torch.div(x, y, rounding_mode="floor")),
    "gather": _gather,
    "gather_along_axis": lambda given: given["x"].gather(
        int(given["axis"]), given["indices"].long()
    ),
    "gather_nd": _gather_nd,
    "gelu": _gelu,
    "greater": _two(torch.gt),
    "greater_equal": _two(torch.ge),
    "identity": lambda given: given["x"],
    "instance_norm": _instance_norm,
    "inverse": lambda given: 1 / (_up(given["x"]) + float(given["epsilon"])),
    "layer_norm": _layer_norm,
    "leaky_relu": lambda given: functional.leaky_relu(_up(given["x"]), float(given["alpha"])),
    "less": _two(torch.lt),
    "less_equal": _two(torch.le),
    "linear": _linear,
    "log": lambda given: (_up(given["x"]) + float(given["epsilon"])).log(),
    "logical_and": _two(torch.logical_and),
    "logical_not": _one(torch.logical_not),
    "logical_or": _two(torch.logical_or),
    "matmul": _matmul,
    "max_pool": _max_pool,
    "maximum": _two(torch.maximum),
    "minimum": _two(torch.minimum),
    "mod": _two(torch.remainder),
    "mul": _two(torch.mul),
    "not_equal": _two(torch.ne),
    "pad": _pad,
    "pixel_shuffle": lambda given: functional.pixel_shuffle(
        given["x"], int(given["upscale_factor"])
    ),
    "pow": _two(torch.pow),
    "real_div": _two(torch.div),
    "reduce_argmax": _arg(torch.argmax),
    "reduce_argmin": _arg(torch.argmin),
    "reduce_l2_norm": _reduce(torch.linalg.vector_norm),
    "reduce_log_sum_exp": _reduce(torch.logsumexp),
    "reduce_max": _reduce(torch.amax),
    "reduce_mean": _reduce(torch.mean),
    "reduce_min": _reduce(torch.amin),
    "reduce_sum": _reduce(torch.sum),
    "relu": _one(torch.relu),
    "relu6": _one(functional.relu6),
    "reshape": lambda given: given["x"].reshape(_ints(given["shape"])),
    "reverse": lambda given: given["x"].flip(_ints(given["axes"])),
    "round": _one(torch.round),
    "rsqrt": lambda given: (_up(given["x"]) + float(given["epsilon"])).rsqrt(),
    "scatter_along_axis": _scatter,
    "scatter_nd": _scatter_nd,
    "scaled_dot_product_attention": _sdpa,
    "select": lambda given: torch.where(*(_up(given[name]) for name in ("cond", "a", "b"))),
    "sigmoid": _one(torch.sigmoid),
    "sigmoid_hard": lambda given: (_up(given["x"]) * given["alpha"] + given["beta"]).clamp(0, 1),
    "sign": _one(torch.sign),
    "silu": _one(functional.silu),
    "sin": _one(torch.sin),
    "slice_by_index": _slice,
    "softmax": _softmax,
    "softplus": _one(functional.softplus),
    "split": _split,
    "sqrt": _one(torch.sqrt),
    "square": _one(torch.square),
    "squeeze": _squeeze,
    "stack": lambda given: torch.stack(list(given["values"]), int(given["axis"])),
    "sub": _two(torch.sub),
    "tanh": _one(torch.tanh),
    "tile": lambda given: torch.as_tensor(given["x"]).repeat(_ints(given["reps"])),
    "transpose": lambda given: given["x"].permute(_ints(given["perm"])),
}
