"""The inputs of a call, for eager and for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.utils import _pytree as pytree

from cede.errors import LoweringError
from cede.types import inputs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.export import ExportedProgram

    from cede.types import Inputs

Call: TypeAlias = "Inputs | Sequence[Any]"
"""Positional inputs alone may be given as they are."""


def flat(call: Call, program: ExportedProgram) -> list[Any]:
    """The inputs in the order in which a method of a `.pte` takes them.

    Args:
        call: what eager is given.
        program: the exported program, which knows the order of keyword inputs.
    """
    given = inputs_of(call)
    named = dict(given.kwargs)
    spec = program.call_spec.in_spec
    known = spec.child(1).context if spec is not None and spec.num_children == 2 else None
    if isinstance(known, list) and set(known) == set(named):
        named = {name: named[name] for name in known}
    return list(pytree.tree_leaves((given.args, named)))


def copied(value: Any) -> Any:
    """Inputs of their own: eager may write into them."""
    return pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, value)


def in_eager(eager: torch.nn.Module, call: Inputs, number: int) -> list[Any]:
    """What eager gives for a call, flat.

    Raises:
        LoweringError: it can't take these inputs.
    """
    try:
        with torch.no_grad():
            return list(pytree.tree_leaves(eager(*call.args, **call.kwargs)))
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise LoweringError(
            f"check: call {number}: eager can't take these inputs: {type(error).__name__}: {said}"
        ) from error
