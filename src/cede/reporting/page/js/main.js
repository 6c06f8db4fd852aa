// Puts the parts together.
(function () {
  const find = (id) => document.getElementById(id);
  const model = cede.readModel(JSON.parse(find("data").textContent));
  const state = cede.makeState(model);
  const graph = cede.makeGraph(find("graph"), model, state);
  const bar = cede.makeBar(find("bar"), model, state);
  cede.makeDetails(find("details"), model, state);
  const { table, ready } = cede.makeTable(find("ops"), model, state);
  Object.assign(cede, { model, state, graph, bar, table });

  const depth = find("depth");
  for (let d = 0; d <= graph.depths; d += 1) {
    depth.add(new Option(d === graph.depths ? `${d} (all ops)` : String(d), d));
  }
  depth.value = graph.startDepth;
  depth.addEventListener("change", () => graph.openTo(Number(depth.value)));
  find("measure").addEventListener("change", (event) => bar.setMeasure(event.target.value));
  find("in").addEventListener("click", () => graph.zoomBy(1.25));
  find("out").addEventListener("click", () => graph.zoomBy(0.8));
  find("fit").addEventListener("click", () => graph.whole());

  let waiting = 0;
  find("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => state.setSearch(event.target.value), 120);
  });
  find("search").addEventListener("keydown", (event) => { if (event.key === "Enter") next(); });
  find("next").addEventListener("click", next);
  function next() {
    clearTimeout(waiting);
    const text = find("search").value.trim().toLowerCase();
    if (text !== state.search) state.setSearch(text);
    const found = [...(state.matching ?? model.ops.keys())].sort((a, b) => a - b);
    if (found.length) state.select(found.find((i) => i > state.selected) ?? found[0], "search");
  }

  const clear = find("clear");
  clear.addEventListener("click", () => {
    history.replaceState(null, "", "#");
    state.setLink(null);
  });
  function follow() {
    const link = cede.linkOf(model, location.hash);
    if (!link) return;
    bringToView();
    if (link.kind === "op") {
      const i = model.byId.get(link.value);
      if (i !== undefined) state.select(i, "link");
      return;
    }
    state.setLink(link);
    const first = model.ops.findIndex((_, i) => link.has(i));
    if (first >= 0) graph.centre(first);
  }
  addEventListener("hashchange", follow);
  addEventListener("click", (event) => {  // a link that was followed before changes no hash
    const link = event.target.closest("a");
    if (link && link.hash && link.hash === location.hash) follow();
  });
  function bringToView() {  // for links of the tables below
    const { top } = find("status").getBoundingClientRect();
    if (find("ops").contains(document.activeElement) || (top >= 0 && top < innerHeight)) return;
    find("program-heading").scrollIntoView();
  }

  state.on("filter", () => {
    clear.hidden = !state.link;
    if (state.link) clear.textContent = `${state.link.kind} ${state.link.value} ×`;
    clear.setAttribute("aria-label", state.link ? `Stop filtering by ${clear.textContent}` : "");
  });
  state.on("match", () => {
    graph.repaint();
    const shown = state.matching ? state.matching.size : model.ops.length;
    find("status").textContent = `${shown} of ${model.ops.length} ops match`;
  });
  state.on("select", (i, from) => {
    graph.repaint();
    if (from !== "graph") graph.centre(i);
    const op = model.ops[i];
    find("status").textContent = `${op.op}: ${op.delegate ? `${op.delegate} on ${op.backend}` : "left"}`;
  });

  function legend() {
    const dark = cede.isDark(), some = model.data.delegates.slice(0, 30);
    const entries = some.map((d, i) => [cede.colour(i, dark), `${d.id} ${d.backend} (${d.ops})`]);
    entries.push([cede.colour(-1, dark), "left (dashed, half height)"]);
    find("legend").replaceChildren(...entries.map(([colour, text]) => {
      const entry = document.createElement("span"), patch = document.createElement("i");
      patch.style.background = colour;
      entry.append(patch, text);
      return entry;
    }));
    if (model.data.delegates.length > some.length) {
      find("legend").append(`and ${model.data.delegates.length - some.length} more delegates`);
    }
  }
  function themed() { legend(); graph.repaint(); bar.draw(); }
  find("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = cede.isDark() ? "light" : "dark";
    themed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);

  bar.setMeasure("ops");
  graph.openTo(graph.startDepth);
  legend();
  ready.then(() => {
    find("status").textContent = `${model.ops.length} ops`;
    follow();
    requestAnimationFrame(() => requestAnimationFrame(() => {
      document.documentElement.dataset.ready = performance.now().toFixed(0);
    }));
  });
})();
