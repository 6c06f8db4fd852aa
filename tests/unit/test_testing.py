"""Each conformance check fails for the plugin that breaks its rule, and for no other."""

from __future__ import annotations

import inspect
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
import torch

from cede.testing import SAMPLES, Conformance, Sample
from cede.testing.conformance import _case, _subject

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """
import cede

class Partitioner:
    name, backend = "subject", "{backend}"

    def keeps(self, program):
        return cede.Keep()

    def claim(self, program):
        for op in program.graph.ops:
            if op.kind in ("aten.linear", "aten.addmm", "aten.permute_copy"):
                yield self.yes(op.id)
            else:
                yield self.no(op.id)

    def yes(self, *ops, **more):
        return cede.Claim(
            partitioner=self.name, backend=self.backend, ops=frozenset(ops), **more
        )

    def no(self, op, code=cede.Code.UNKNOWN_OP, detail="only products"):
        reason = cede.Reason(code=code, detail=detail)
        return cede.Refusal(partitioner=self.name, op=op, reason=reason)

good = Partitioner
"""

PARTITIONER = """
@cede.hookimpl
def cede_partitioners():
    yield Partitioner()
"""

BACKEND = """
@cede.hookimpl
def cede_backends():
    from cede.backends.reference.plugin import _register, _load
    record = dict(
        name="broken", delegate_id="CedeReferenceBackend", register=_register, load=_load
    )
    record.update(changes())
    yield cede.Backend(**record)
"""


def answering(body: str) -> str:
    """A partitioner with another `claim`; `ops` are ids, the last is a softmax."""
    return f"""
class Partitioner(good):
    def claim(self, program):
        ops = [op.id for op in program.graph.ops]
        yield from {body}
        yield from good.claim(self, program)
"""


def instead(body: str) -> str:
    """A partitioner whose `claim` is this body alone."""
    text = "\n".join(f"        {line}" for line in dedent(body).strip().splitlines())
    return f"class Partitioner(good):\n    def claim(self, program):\n{text}\n"


def backend(changes: str) -> str:
    return f"def changes():\n    return dict({changes})\n{BACKEND}"


IN_PROGRAM = """
node = list(program.exported.graph.nodes)[-2]
{}
yield from good.claim(self, program)
"""

PLUGINS = {
    "a string": (answering('["linear"]'), {"test_answers_are_records"}),
    "in another's name": (
        answering('[cede.Claim(partitioner="x", backend=self.backend, ops=frozenset(ops[-1:]))]'),
        {"test_answers_are_records"},
    ),
    "for another backend": (
        answering('[cede.Claim(partitioner=self.name, backend="x", ops=frozenset(ops[-1:]))]'),
        {"test_answers_are_records"},
    ),
    "a list of ops": (
        answering(
            "[cede.Claim(partitioner=self.name, backend=self.backend, ops=ops[:1])]"
        ),
        {"test_answers_are_records"},
    ),
    "an unknown op": (answering('[self.no("conv_7")]'), {"test_answers_name_existing_ops"}),
    "a claim of nothing": (answering("[self.yes()]"), {"test_answers_name_existing_ops"}),
    "silence": (instead("return [self.yes(op.id) for op in program.graph.ops][:1]"),
                {"test_every_op_is_answered"}),
    "a hole in a claim": (answering("[self.yes(ops[0], ops[-1])]"), {"test_claims_are_convex"}),
    "no words": (answering('[self.no(ops[-1], detail=" ")]'), {"test_reasons_say_something"}),
    "a code of its own": (answering('[self.no(ops[-1], code="odd")]'),
                          {"test_reasons_say_something"}),
    "no Reason": (
        answering('[cede.Refusal(partitioner=self.name, op=ops[-1], reason="no")]'),
        {"test_reasons_say_something"},
    ),
    "keeps a list": (
        "class Partitioner(good):\n    def keeps(self, program):\n        return []\n",
        {"test_kept_ops_can_stay_whole"},
    ),
    "keeps an op that writes": (
        """
class Partitioner(good):
    def keeps(self, program):
        import torch
        return cede.Keep(ops=(torch.ops.aten.add_.Tensor,))
""",
        {"test_kept_ops_can_stay_whole"},
    ),
    "a memory": (
        """
class Partitioner(good):
    asked = 0
    def claim(self, program):
        self.asked += 1
        for op in program.graph.ops:
            yield self.no(op.id) if self.asked > 1 else self.yes(op.id)
""",
        {"test_the_same_answers_twice"},
    ),
    "writes meta": (instead(IN_PROGRAM.format("node.meta['mine'] = 1")),
                    {"test_the_graph_is_unchanged"}),
    "writes into meta": (
        instead(IN_PROGRAM.format("node.meta['nn_module_stack'].clear()")),
        {"test_the_graph_is_unchanged"},
    ),
    "writes a weight": (
        instead(IN_PROGRAM.format("program.exported.state_dict['0.bias'].detach().add_(1)")),
        {"test_the_graph_is_unchanged"},
    ),
    "swaps a weight": (
        instead(IN_PROGRAM.format(
            "program.exported._state_dict['0.bias'] = program.exported.state_dict['0.bias'] + 0"
        )),
        {"test_the_graph_is_unchanged"},
    ),
    "raises": (instead("raise ValueError('why')\nyield"), {"test_asking_does_not_fail"}),
    "raises in keeps": (
        "class Partitioner(good):\n    def keeps(self, program):\n        return 1 / 0\n",
        {"test_asking_does_not_fail"},
    ),
    "never ends": (
        instead("while True:\n    pass\nyield"),
        {"test_asking_does_not_fail", "test_answers_come_in_time"},
    ),
    "claims nothing": (
        instead("return [self.no(op.id) for op in program.graph.ops]"),
        {"test_it_claims_something"},
    ),
    "can't compile": (
        """
def changes():
    return dict(compile_specs=boom, delegate_id="NobodysBackend")
def boom(options):
    return ()
""" + BACKEND,
        {"test_it_lowers_what_it_claims"},
    ),
    "wrong numbers": (
        """
class Wrong:
    def __init__(self, inner):
        self.inner = inner
    def run(self, inputs, method="forward"):
        return [value + 1 for value in self.inner.run(inputs, method)]

def changes():
    from cede.backends.reference.plugin import _load
    return dict(load=lambda data: Wrong(_load(data)))
""" + BACKEND,
        {"test_numbers_are_right"},
    ),
    "available says no": (
        backend('available=lambda: cede.Availability(run="no")'),
        {"test_available_answers_in_words"},
    ),
    "available says nothing": (
        backend("available=lambda: None"), {"test_available_answers_in_words"},
    ),
    "available raises": (
        backend("available=lambda: 1 / 0"), {"test_available_answers_in_words"},
    ),
    "specs are text": (
        backend('compile_specs=lambda options: [("a", "b")]'),
        {"test_options_become_compile_specs", "test_it_lowers_what_it_claims"},
    ),
    "specs raise": (
        backend("compile_specs=lambda options: options.threads"),
        {"test_options_become_compile_specs", "test_it_lowers_what_it_claims"},
    ),
}  # fmt: skip


def line() -> Sample:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Softmax(-1))
    return Sample(model=model, calls=((torch.randn(2, 4),),))


def conformance(folder: Path, source: str, **settings: Any) -> type[Conformance]:
    plugin = folder / "plugin.py"
    name = "broken" if "cede_backends" in source else "reference"
    parts = [GOOD.replace("{backend}", name), source, PARTITIONER]
    plugin.write_text("\n".join(parts))
    given = {"plugin": plugin, "partitioner": "subject", "programs": {"line": line}, **settings}
    return type("Checked", (Conformance,), given)


def outcomes(checked: type[Conformance]) -> dict[str, str]:
    """What each check that fails says."""
    found = {}
    for name, check in inspect.getmembers(checked, inspect.isfunction):
        if not name.startswith("test_"):
            continue
        given: dict[str, Any] = {}
        try:
            if "subject" in inspect.signature(check).parameters:
                given["subject"] = _subject(checked)
            if "case" in inspect.signature(check).parameters:
                given["case"] = _case(checked, "line")
            check(checked(), **given)
        except pytest.skip.Exception:
            continue
        except pytest.fail.Exception as failed:
            found[name] = str(failed)
    return found


@pytest.mark.parametrize("kind", PLUGINS)
def test_a_broken_plugin_fails_its_check(kind: str, tmp_path: Path) -> None:
    source, wanted = PLUGINS[kind]
    seconds = 0.5 if kind == "never ends" else 60.0
    found = outcomes(conformance(tmp_path, source, seconds=seconds))
    assert set(found) == wanted, found
    assert all(text.strip() for text in found.values())


@pytest.mark.parametrize("source", ["", backend("")], ids=["partitioner", "backend"])
def test_a_sound_plugin_passes(source: str, tmp_path: Path) -> None:
    assert outcomes(conformance(tmp_path, source)) == {}


def test_answers_by_the_order_of_a_set_fail_in_another_process(tmp_path: Path) -> None:
    source = answering("[self.yes(ops[-1], note=str(hash(ops[-1])))]")
    checked = conformance(
        tmp_path, source, programs={"mlp": SAMPLES["mlp"]}, hash_seeds=("mlp",)
    )  # fmt: skip
    with pytest.raises(pytest.fail.Exception, match="with another hash seed it doesn't answer"):
        checked().test_the_same_answers_in_another_process()


def test_a_message_names_the_partitioner_and_the_op(tmp_path: Path) -> None:
    found = outcomes(conformance(tmp_path, PLUGINS["a hole in a claim"][0]))
    [text] = found.values()
    assert text.startswith("subject: the claim of ")
    assert "aten_relu_default" in text


def test_what_is_checked_must_be_said_and_be_there() -> None:
    for settings, said in (
        ({}, "which backend or which partitioner"),
        ({"backend": "nobodys"}, "there is no backend 'nobodys'"),
        ({"backend": "reference", "options": {"fast": True}}, "options.reference.fast"),
    ):
        checked = type("Checked", (Conformance,), settings)
        with pytest.raises(pytest.fail.Exception, match=said):
            _subject(checked)


def test_the_samples_are_what_they_say(subtests: pytest.Subtests) -> None:
    for name, make in SAMPLES.items():
        with subtests.test(name):
            first, second = make(), make()
            one, two = (sample.model.state_dict() for sample in (first, second))
            assert all(torch.equal(one[key], two[key]) for key in one)
            assert make.__doc__
