"""Loading a config: where from, what wins, and what each mistake is told."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

import pytest

from cede.config import (
    Config,
    LimitsConfig,
    PolicyConfig,
    SelectorConfig,
    load_config,
    ready_configs,
)
from cede.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"


def problems(source: object = None, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(source, overrides)  # type: ignore[arg-type]
    return str(caught.value).splitlines()


def write(folder: Path, text: str) -> str:
    file = folder / "my.yaml"
    file.write_text(text)
    return str(file)


def test_default_is_used_when_nothing_is_asked_for() -> None:
    assert load_config().backends == ["xnnpack"]
    assert load_config() == load_config("default")


def test_every_ready_config_loads_and_starts_with_a_comment() -> None:
    names = ready_configs()
    assert {"default", "xnnpack-fp32", "reference", "two-backends"} <= set(names)
    for name in names:
        assert load_config(name).backends
        text = (Path(__file__).parents[2] / "configs" / f"{name}.yaml").read_text()
        assert text.startswith("# ")


def test_two_backends_keeps_its_order() -> None:
    assert load_config("two-backends").backends == ["xnnpack", "reference"]


def test_a_file_with_overrides_over_it(tmp_path: Path) -> None:
    file = write(tmp_path, "backends: [a]\nlimits: {a: {min_ops: 2}}\nseconds: 5\n")
    config = load_config(file, ["backends=[b,c]", "limits.a.max_delegates=3", "options.b.x.y=1"])
    assert config.backends == ["b", "c"]
    assert config.limits == {"a": LimitsConfig(min_ops=2, max_delegates=3)}
    assert config.options == {"b": {"x": {"y": 1}}}
    assert config.seconds == 5.0


def test_a_later_override_wins() -> None:
    assert load_config(None, ["seconds=1", "seconds=2"]).seconds == 2


def test_a_config_object_is_checked_too() -> None:
    assert load_config(Config(backends=["a"]), ["strict=true"]).strict
    assert problems(Config(seconds=-1)) == ["config: seconds: is -1, must be above 0"]


def test_origins_are_no_key(tmp_path: Path) -> None:
    file = write(tmp_path, "origins: {a: b}\n")
    assert problems(file)[0].startswith(f"{file}: origins: unknown key; known: backends, ")


def test_a_config_object_with_a_value_that_no_yaml_holds() -> None:
    line = problems(Config(options={"a": {"b": object()}}))[0]
    assert line.startswith("config: options.a.b: ")


def test_loading_leaves_the_given_config_alone() -> None:
    given = Config(backends=["a"])
    load_config(given, ["backends=[b]"])
    assert given == Config(backends=["a"])


def test_plugin_files_are_relative_to_the_config_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    file = write(tmp_path / "sub", "plugins: {files: [mine.py, ../other.py, /abs/x.py]}\n")
    got = load_config(file).plugins.files
    assert got == [
        str(tmp_path / "sub" / "mine.py"),
        str(tmp_path / "other.py"),
        str(Path("/abs/x.py").resolve()),
    ]
    assert load_config(load_config(file)).plugins.files == got


def test_the_cache_folder_is_relative_to_the_config_file(tmp_path: Path) -> None:
    path = write(tmp_path, "lowering: {cache_folder: kept}\n")
    assert load_config(path).lowering.cache_folder == str(tmp_path / "kept")
    here = load_config(path, ["lowering.cache_folder=mine"]).lowering.cache_folder
    assert here == str(Path.cwd() / "mine")


def test_plugin_files_of_an_override_are_relative_to_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    file = write(tmp_path / "sub", "plugins: {files: [mine.py]}\n")
    monkeypatch.chdir(tmp_path)
    got = load_config(file, ["plugins.files=[mine.py]"]).plugins.files
    assert got == [str(tmp_path / "mine.py")]


def test_interpolations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEDE_TEST_SECONDS", "7")
    file = write(
        tmp_path,
        "seconds: ${oc.env:CEDE_TEST_SECONDS}\ncheck: {rtol: '${check.atol}', atol: 0.5}\n"
        "plugins: {seconds: '${seconds}'}\n",
    )
    config = load_config(file)
    assert (config.seconds, config.check.rtol, config.plugins.seconds) == (7.0, 0.5, 7.0)


def test_an_interpolation_without_a_value_names_the_key(tmp_path: Path) -> None:
    file = write(tmp_path, "seconds: ${nope}\nsettle: ${settle}\n")
    settle, seconds = sorted(problems(file), reverse=True)
    assert settle == f"{file}: settle: Recursive interpolation detected"
    assert seconds.startswith(f"{file}: seconds: ")
    assert "nope" in seconds


def test_an_unknown_key_gets_the_nearest_right_one(tmp_path: Path) -> None:
    file = write(tmp_path, "plugins: {seconts: 3}\n")
    assert problems(file) == [
        f"{file}: plugins.seconts: unknown key; did you mean plugins.seconds?"
    ]


def test_all_problems_come_at_once_each_with_its_origin(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "backend: [a]\ncheck: {atol: -1, rtol: .nan}\nlimits: {a: {min_ops: -2}, b: 3}\n"
        "partitioners: a\npluginz: {a: b}\n",
    )
    lines = problems(file, "seconds=soon", "strict=perhaps", "plugins.disabled=[x]", "word")
    assert sorted(lines) == sorted(
        [
            f"{file}: backend: unknown key; did you mean backends?",
            f"{file}: check.atol: is -1, must not be below 0",
            f"{file}: check.rtol: is nan, must be a finite number",
            f"{file}: limits.a.min_ops: is -2, must not be below 0",
            f"{file}: limits.b: got 3 (int), expected keys with values",
            f"{file}: partitioners: got 'a' (str), expected a list, each a text",
            f"{file}: pluginz: unknown key; did you mean plugins?",
            "override: seconds: got 'soon' (str), expected a number",
            "override: strict: got 'perhaps' (str), expected true or false",
            "override: plugins.disabled: unknown key; did you mean plugins.disable?",
            "override: word: expected key=value",
        ]
    )


@pytest.mark.parametrize("value", ["0", "-1", "inf", "1e300"])
def test_seconds_must_be_a_time_that_a_clock_can_wait(value: str) -> None:
    assert problems(None, f"seconds={value}")[0].startswith("override: seconds: is ")


def test_selectors_are_short_texts_or_mappings(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "policy:\n  exclude: ['op:aten.linear*, module:enc', {regex: 'a{1,2}'}]\n"
        "  pin: [{layer: 0.mlp, backend: a}]\n  require:\n",
    )
    config = load_config(file, ["policy.fallback=warn", "policy.fallback_for=[dtype:int*]"])
    assert config.policy == PolicyConfig(
        exclude=[SelectorConfig(op="aten.linear*", module="enc"), SelectorConfig(regex="a{1,2}")],
        pin=[SelectorConfig(layer="0.mlp", backend="a")],
        fallback="warn",
        fallback_for=[SelectorConfig(dtype="int*")],
    )
    assert config.origin("policy.exclude[1].regex") == file
    assert config.origin("policy.fallback_for[0]") == "override"
    assert load_config(config) == config


def test_a_bad_selector_is_told_with_its_path_field_and_the_nearest_right_one(
    tmp_path: Path,
) -> None:
    file = write(
        tmp_path,
        "policy:\n  exclude: [modle:x, {opp: x}, 5, 'op:a,b', 'op:a,op:b', {regex: (}]\n"
        "  pin: [op:a]\n  require: [backend:a]\n  fallback: wran\n"
        "  fallback_for: ['op:a,backend:b']\n  max_claims: -1\n",
    )
    known = "op, name, regex, module, layer, dtype"
    assert problems(file, "policy.excludes=[a]") == [
        f"{file}: policy.exclude[0]: unknown field modle; did you mean module?",
        f"{file}: policy.exclude[1].opp: unknown key; did you mean policy.exclude[1].op?",
        f"{file}: policy.exclude[2]: got 5 (int), expected keys with values: {known}, backend",
        (
            f"{file}: policy.exclude[3]: 'b' is no field:pattern, such as op:aten.linear*"
            " (a pattern with a comma needs the long form)"
        ),
        f"{file}: policy.exclude[4]: the field op comes twice",
        (
            f"{file}: policy.exclude[5].regex: is no regular expression: missing ), unterminated"
            " subpattern at position 0"
        ),
        f"{file}: policy.pin[0]: names no backend; add backend",
        f"{file}: policy.require[0]: selects no op; give op, name, regex, module, layer or dtype",
        f"{file}: policy.fallback: is 'wran'; did you mean warn?",
        (
            f"{file}: policy.fallback_for[0]: has a backend, and this rule is about ops that no"
            " backend has; leave it out"
        ),
        f"{file}: policy.max_claims: is -1, must not be below 0",
        "override: policy.excludes: unknown key; did you mean policy.exclude?",
    ]


def test_an_empty_section_is_the_default(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, "plugins:\noptions:\nlimits: {a: }\n")) == Config(
        limits={"a": LimitsConfig()}
    )


def test_an_empty_file_is_the_default_of_every_key(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, "")) == Config()


def test_null_where_none_can_be(tmp_path: Path) -> None:
    file = write(tmp_path, "seconds: null\n")
    assert problems(file) == [f"{file}: seconds: got null, expected a number"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("backends: [a\nstrict: true\n", r" \(line 2, column 7\): not YAML: "),
        ("strict: true\nstrict: false\n", r" \(line 2, column 1\): not YAML: .*duplicate key"),
        ("- a\n", r": expected keys with values, got a list"),
        ("a: &x [*x]\n", r": an anchor holds itself"),
        ("a: !!python/object:os.system 1\n", r" \(line 1, column 4\): not YAML: "),
        ("seconds: ${\n", r": seconds: "),
    ],
)
def test_broken_yaml_is_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)
    lines = problems(file)
    assert len(lines) == 1
    assert re.match(re.escape(file) + message, lines[0]), lines[0]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_bytes(b"strict: \xff\n")
    assert problems(file) == [f"{file}: not UTF-8 at byte 8"]


def test_missing_and_misspelled_sources(tmp_path: Path) -> None:
    missing = tmp_path / "no.yaml"
    assert problems(str(missing)) == [f"{missing}: no such file"]
    assert problems("two-backend") == [
        "two-backend: neither a file nor a ready config; did you mean two-backends?"
    ]
    assert problems(tmp_path) == [f"{tmp_path}: can't be read: Is a directory"]


def test_a_broken_override_names_its_key() -> None:
    assert problems(None, "backends=[a") == [
        "override: backends: not YAML: expected ',' or ']', but got '<stream end>'"
    ]


def test_loading_imports_no_torch() -> None:
    code = "import sys, cede; cede.load_config(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def yaml_blocks() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (DOCS / "config.md").read_text(), re.DOTALL)


def test_the_page_has_yaml() -> None:
    assert len(yaml_blocks()) > 3


@pytest.mark.parametrize("block", yaml_blocks())
def test_every_yaml_block_of_the_page_loads(tmp_path: Path, block: str) -> None:
    assert load_config(write(tmp_path, block)) != Config()


def keys_of(kind: type, prefix: str = "") -> Iterator[str]:
    hints = get_type_hints(kind)
    for one in fields(kind):
        if one.name == "origins":
            continue
        if is_dataclass(hints[one.name]):
            yield from keys_of(hints[one.name], f"{prefix}{one.name}.")
        else:
            yield f"{prefix}{one.name}"


def test_the_page_names_every_key() -> None:
    text = (DOCS / "config.md").read_text()
    keys = [*keys_of(Config), *keys_of(LimitsConfig, "limits.<backend>.")]
    assert "policy.exclude" in keys
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_the_page_names_every_field_of_a_selector() -> None:
    text = (DOCS / "config.md").read_text()
    assert [f.name for f in fields(SelectorConfig) if f"| `{f.name}` |" not in text] == []


def test_the_page_names_every_ready_config() -> None:
    text = (DOCS / "config.md").read_text()
    assert [name for name in ready_configs() if f"`{name}`" not in text] == []
