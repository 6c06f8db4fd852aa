// What is selected, searched and filtered; the parts of the page listen to it.
cede.makeState = function (model) {
  const listeners = { select: [], match: [], filter: [] };
  const state = { selected: -1, search: "", link: null, matching: null };
  const tell = (event, ...more) => listeners[event].forEach((listen) => listen(...more));

  state.on = (event, listen) => listeners[event].push(listen);
  state.select = function (i, from) {
    state.selected = i;
    if (i >= 0) history.replaceState(null, "", `#op=${encodeURIComponent(model.ops[i].op)}`);
    tell("select", i, from);
  };
  state.setSearch = function (text) { state.search = text.trim().toLowerCase(); tell("filter"); };
  state.setLink = function (link) { state.link = link; tell("filter"); };
  state.passes = (i) => (!state.search || model.text[i].includes(state.search)) &&
    (!state.link || state.link.has(i));
  // The table says which ops are left once its column filters apply too; null is all of them.
  state.setMatching = function (indices) {
    state.matching = indices.length === model.ops.length ? null : new Set(indices);
    tell("match");
  };
  return state;
};

// "#kind=value" -> what it filters by, or null. Tables and details link with such fragments.
cede.linkOf = function (model, fragment) {
  const cut = fragment.indexOf("=");
  const kind = fragment.slice(1, cut);
  let value;
  try { value = decodeURIComponent(fragment.slice(cut + 1)); } catch { return null; }
  const { data, ops } = model;
  const those = (ids) => { const all = new Set(ids); return (i) => all.has(ops[i].op); };
  const tests = {
    op: () => (i) => ops[i].op === value,
    delegate: () => (i) => ops[i].delegate === value,
    module: () => (i) => cede.inModule(ops[i].module, value === "(all)" ? "" : value),
    source: () => (i) => ops[i].source === value,
    left: () => (i) => ops[i].target === value && !ops[i].delegate,
    code: () => (i) => !ops[i].delegate && ops[i].answers.some((a) => a.code === value),
    advice: () => those(data.advice.filter((a) => a.do === value).flatMap((a) => a.ops)),
    rank: () => those(data.ranking.filter((r) => r.operator === value).flatMap((r) => r.ops)),
    constant: () => those(data.shared_constants.filter((c) => c.name === value).flatMap((c) => c.ops)),
    state: () => those(data.states.filter((s) => s.name === value).map((s) => s.written)),
  };
  if (cut < 1 || !Object.hasOwn(tests, kind)) return null;
  return { kind, value, has: tests[kind]() };
};
