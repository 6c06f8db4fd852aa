"""A report as CSV and JSON, for tools."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, fields
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cede.reporting.comparison import rank_data
from cede.reporting.records import SCHEMA, DelegateTotal

if TYPE_CHECKING:
    from cede.planning import Source
    from cede.reporting.borders import Border
    from cede.reporting.records import Report, Row

_COLUMNS = (
    "op", "target", "module", "layer", "source", "scope", "backend", "delegate", "partitioner",
    "outputs", "flops", "bytes", "bookkeeping", "reason",
)  # fmt: skip


def to_csv(report: Report) -> str:
    """The op rows with a header, one column for each partitioner's answer."""
    names = list(dict.fromkeys(a.partitioner for row in report.rows for a in row.answers))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_COLUMNS, *(f"answer:{name}" for name in names)])
    for row in report.rows:
        answers = {answer.partitioner: str(answer) for answer in row.answers}
        writer.writerow(
            [
                *(_cell(getattr(row, column)) for column in _COLUMNS),
                *(answers.get(name, "") for name in names),
            ]
        )
    return out.getvalue()


def delegates_to_csv(report: Report) -> str:
    """One row a delegate; several partitioners are joined by "+"."""
    names = [field.name for field in fields(DelegateTotal)]
    for name, told in (("predicted", report.prediction), ("measured", report.timing)):
        if told is None:
            names.remove(f"{name}_seconds")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for given in report.by_delegate:
        cells = (getattr(given, name) for name in names)
        writer.writerow(["+".join(cell) if isinstance(cell, tuple) else cell for cell in cells])
    return out.getvalue()


def _cell(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def to_json(report: Report) -> str:
    """Everything, as text."""
    return json.dumps(to_data(report), indent=1, ensure_ascii=False) + "\n"


def to_data(report: Report) -> dict[str, Any]:
    """Everything, as values of JSON types; `report.schema.json` describes it."""
    plan = report.plan
    data = {
        "schema": SCHEMA,
        "method": plan.method,
        "fingerprint": plan.fingerprint,
        "verdict": report.verdict,
        "advice": [_listed(asdict(given)) for given in report.advice],
        "partitioners": [_source(given) for given in plan.partitioners],
        "backends": [_source(given) for given in plan.backends],
        "totals": asdict(report.totals),
        "coverage": [asdict(given) for given in report.coverage],
        "delegates": [_delegate(given) for given in report.by_delegate],
        "by_type": [asdict(given) for given in report.by_type],
        "by_module": [asdict(given) for given in report.by_module],
        "ops": [_row(row) for row in report.rows],
        "states": [asdict(given) for given in report.states],
        "kernels": [_listed(asdict(given)) for given in report.kernels],
        "shared_constants": [_listed(asdict(given)) for given in report.shared_constants],
        "ranking": [rank_data(given) for given in report.ranking],
        "warnings": list(plan.warnings),
    }
    return data | _whole(report)


def _whole(report: Report) -> dict[str, Any]:
    """What is told of the program as a whole where it is known."""
    data: dict[str, Any] = {}
    if report.memory is not None:
        data["memory"] = _listed(asdict(report.memory))
    if report.borders:
        data["borders"] = [_border(given) for given in report.borders]
    if report.quantization is not None:
        told = json.loads(report.quantization.json())
        del told["schema"]
        data["quantization"] = {"verdict": report.quantization.verdict, **told}
    if (found := report.prediction) is not None:
        data["predicted"] = {
            "seconds": found.seconds,
            "delegates": sum(given.compute + given.launch for given in found.delegates),
            "border": found.border,
            "fallback": found.fallback,
        }
    if (timing := report.timing) is not None:
        data["measured"] = {
            "seconds": timing.seconds,
            "calls": timing.calls,
            "runtime": timing.runtime,
            "ops": dict(timing.ops),
            "kernels": {
                id: [{"name": name, "seconds": took} for name, took in found]
                for id, found in timing.kernels.items()
            },
        }
    return data


def _border(given: Border) -> dict[str, Any]:
    data = asdict(given)
    data["meeting"] = given.meeting.value
    return data | {side: data[side] and _listed(data[side]) for side in ("given", "read")}


def json_schema() -> str:
    """The JSON schema (draft 2020-12) of what `to_json` writes."""
    return files("cede.reporting").joinpath("report.schema.json").read_text(encoding="utf-8")


def _listed(data: dict[str, Any]) -> dict[str, Any]:
    """With lists for tuples, as JSON has them."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in data.items()}


def _delegate(given: DelegateTotal) -> dict[str, Any]:
    data = _listed(asdict(given))
    for name in ("predicted_seconds", "measured_seconds"):
        if data[name] is None:
            del data[name]
    return data


def _source(given: Source) -> dict[str, str]:
    return {
        "name": given.name,
        "distribution": given.distribution,
        "version": given.version,
    }


def _row(row: Row) -> dict[str, Any]:
    data: dict[str, Any] = {column: getattr(row, column) for column in _COLUMNS}
    data["inputs"] = list(row.inputs)
    data["answers"] = [
        {
            "partitioner": answer.partitioner,
            "outcome": answer.outcome.value,
            "code": answer.reason.code.value if answer.reason else "",
            "detail": answer.reason.detail if answer.reason else "",
        }
        for answer in row.answers
    ]
    return data
