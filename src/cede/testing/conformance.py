"""`Conformance`: the checks as tests. Derive a class from it and pytest does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from cede.errors import CedeError
from cede.testing import checks
from cede.testing.samples import SAMPLES
from cede.testing.subject import Case, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cede.testing.asking import Asked
    from cede.testing.sample import Sample


class Conformance:
    """Holds the partitioners of a backend, and the backend itself, against the contract.

        from cede.testing import Conformance

        class TestNpu(Conformance):
            backend = "npu"

    Each check is a test, for each program. A test that can't be made here (a backend that isn't
    available) is skipped with the reason.

    Attributes:
        backend: name of the backend; "" takes that of `partitioner`.
        partitioner: the only one to ask; "" asks all that claim for the backend.
        plugin: a `.py` plugin that isn't installed.
        options: the backend's options.
        programs: what makes each program, by name: the bundled ones, yours, or both.
        seconds: how long one partitioner may take for one program.
        atol: |program - eager| <= atol + rtol * |eager|; more for half precision.
        rtol: see `atol`.
        hash_seeds: names of bundled programs that another process is asked about, with another
            seed for the hashes of strings; () leaves that out.
    """

    backend: ClassVar[str] = ""
    partitioner: ClassVar[str] = ""
    plugin: ClassVar[Path | str | None] = None
    options: ClassVar[Mapping[str, Any]] = {}
    programs: ClassVar[Mapping[str, Callable[[], Sample]]] = SAMPLES
    seconds: ClassVar[float] = 60.0
    atol: ClassVar[float] = 1e-4
    rtol: ClassVar[float] = 1e-4
    hash_seeds: ClassVar[tuple[str, ...]] = ("conv", "attention")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each program."""
        if "program" in metafunc.fixturenames:
            metafunc.parametrize("program", list(self.programs))

    @pytest.fixture
    def subject(self) -> Subject:
        """The plugin, loaded once for the class."""
        return _subject(type(self))

    @pytest.fixture
    def case(self, program: str) -> Case:
        """A program that the plugin was asked about, once for the class."""
        return _case(type(self), program)

    def test_available_answers_in_words(self, subject: Subject) -> None:
        """`available()` says None, or why not and what to install."""
        _no(checks.availability(subject.backend.available))

    def test_options_become_compile_specs(self, subject: Subject) -> None:
        """The options are a dataclass that a config fills and the compiler gets as specs."""
        name = subject.backend.name
        if name not in subject.options:
            pytest.fail(f"{name}: an option without a default: set `options`", pytrace=False)
        _no(checks.specs(subject.backend, subject.options[name]))

    def test_asking_does_not_fail(self, case: Case) -> None:
        """`keeps` and `claim` raise nothing."""
        _no([f"{one.partitioner.name}: {one.error}" for one in case.asked if one.error])
        if not case.asked:
            pytest.fail(case.trouble, pytrace=False)

    def test_answers_are_records(self, case: Case) -> None:
        """Answers are claims and refusals in the partitioner's own name."""
        _each(case, checks.records)

    def test_answers_name_existing_ops(self, case: Case) -> None:
        """Answers name ops of the graph."""
        _each(case, checks.existing_ops)

    def test_every_op_is_answered(self, case: Case) -> None:
        """Claims and refusals cover all ops."""
        _each(case, checks.every_op_answered)

    def test_claims_are_convex(self, case: Case) -> None:
        """No path leaves a claim and comes back."""
        _each(case, checks.convex)

    def test_reasons_say_something(self, case: Case) -> None:
        """Refusals have a known code and words."""
        _each(case, checks.reasons)

    def test_kept_ops_can_stay_whole(self, case: Case) -> None:
        """`keeps` wants operators that can be kept."""
        _each(case, checks.kept)

    def test_the_same_answers_twice(self, case: Case) -> None:
        """The same program gets the same answers."""
        _each(case, checks.same_twice)

    def test_the_same_answers_in_another_process(self) -> None:
        """Answers don't depend on the order of a set."""
        from cede.testing.elsewhere import answers_elsewhere

        names = [name for name in self.hash_seeds if name in self.programs]
        if not names:
            pytest.skip("hash_seeds names none of the programs")
        here = {name: _spelled(_case(type(self), name)) for name in names}
        elsewhere = answers_elsewhere(type(self), names)
        _no([
            f"{name}: {fault}"
            for name in names
            for fault in checks.differences(here[name], elsewhere[name], "with another hash seed")
        ])  # fmt: skip

    def test_the_graph_is_unchanged(self, case: Case) -> None:
        """Asking leaves facts, meta and weights as they were."""
        _each(case, lambda asked: asked.changes)

    def test_answers_come_in_time(self, case: Case) -> None:
        """One program takes a partitioner at most `seconds`."""
        for asked in case.asked:
            if asked.seconds > self.seconds:
                pytest.fail(
                    f"{asked.partitioner.name} took {asked.seconds:.1f} s for"
                    f" {len(asked.graph.ops)} ops; `seconds` allows {self.seconds:g}",
                    pytrace=False,
                )

    def test_it_claims_something(self) -> None:
        """At least one program has a claim; else nothing else here means much."""
        cases = [_case(type(self), name) for name in self.programs]
        if any(one.error for case in cases for one in case.asked):
            pytest.skip("asking failed: see test_asking_does_not_fail")
        if not any(case.claimed for case in cases):
            pytest.fail("no op of any program is claimed: add a program to `programs` that "
                        "has what the plugin is for", pytrace=False)  # fmt: skip

    def test_it_lowers_what_it_claims(self, case: Case) -> None:
        """Every delegation of the plan becomes a delegate."""
        _needs_delegates(case)
        if case.lowered is None:
            pytest.fail(case.trouble, pytrace=False)
        _no(checks.delegates(case.lowered, case.subject.backend))

    def test_numbers_are_right(self, case: Case) -> None:
        """The program gives what eager gives, in the runtime."""
        from cede.checking import check_program
        from cede.config import CheckConfig

        _needs_delegates(case)
        if (why := case.subject.availability.run) is not None:
            pytest.skip(f"{case.subject.backend.name} can't run here: {why}")
        if case.lowered is None:
            pytest.skip(f"it wasn't lowered: {case.trouble}")
        try:
            outcome = check_program(
                case.lowered,
                case.sample.calls,
                case.subject.host.backends,
                CheckConfig(atol=self.atol, rtol=self.rtol),
            )
        except CedeError as error:
            pytest.fail(str(error), pytrace=False)
        if not outcome.passed:
            pytest.fail(outcome.message, pytrace=False)


_SUBJECTS: dict[type[Conformance], Subject] = {}
_CASES: dict[tuple[type[Conformance], str], Case] = {}


def _subject(of: type[Conformance]) -> Subject:
    if of not in _SUBJECTS:
        try:
            _SUBJECTS[of] = Subject(
                backend=of.backend,
                partitioner=of.partitioner,
                plugin=of.plugin,
                options=of.options,
                seconds=of.seconds,
            )
        except CedeError as error:
            pytest.fail(str(error), pytrace=False)
    return _SUBJECTS[of]


def _case(of: type[Conformance], name: str) -> Case:
    """One program; skips where nothing can be claimed here."""
    subject = _subject(of)
    if (why := subject.availability.claim) is not None:
        pytest.skip(f"{subject.backend.name} can't claim here: {why}")
    if (of, name) not in _CASES:
        _CASES[of, name] = Case(subject, name, of.programs[name])
    return _CASES[of, name]


def _asked(case: Case) -> tuple[Asked, ...]:
    """What the partitioners did; skips where `test_asking_does_not_fail` has failed."""
    if not case.asked or any(one.error for one in case.asked):
        pytest.skip("asking failed: see test_asking_does_not_fail")
    return case.asked


def _spelled(case: Case) -> list[str]:
    return [text for one in _asked(case) for text in checks.spelled(one.answers)]


def _each(case: Case, check: Callable[[Asked], list[str]]) -> None:
    _no([f"{one.partitioner.name}: {fault}" for one in _asked(case) for fault in check(one)])


def _needs_delegates(case: Case) -> None:
    _asked(case)
    name, lowered = case.subject.backend.name, case.lowered
    if not case.claimed:
        pytest.skip("nothing of this program is claimed")
    if case.unmet:
        pytest.skip(f"nothing else computes {', '.join(case.unmet)}, which nobody claims")
    if (why := case.subject.availability.lower) is not None:
        pytest.skip(f"{name} can't lower here: {why}")
    if lowered is not None and not lowered.plan.delegations:
        pytest.skip("nothing of this program is delegated; limits may have dropped it")


def _no(faults: list[str]) -> None:
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)
