// Mouse and keyboard on the graph.
cede.graphInput = function (canvas, view, state, model) {
  canvas.addEventListener("click", (event) => {
    const node = view.at(event);
    if (node) state.select(node.ops[0], "graph");
  });
  canvas.addEventListener("dblclick", (event) => {
    const node = view.at(event);
    if (node && node.module) view.toggle(node.module);
  });
  const pans = { ArrowUp: [0, 60], ArrowDown: [0, -60], ArrowLeft: [60, 0], ArrowRight: [-60, 0] };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = view.node(), key = event.key;
    if (pans[key] && event.shiftKey) view.panBy(...pans[key]);
    else if (pans[key]) step(node, key);
    else if (key === "+" || key === "=") view.zoomBy(1.25);
    else if (key === "-") view.zoomBy(0.8);
    else if (key === "0") view.whole();
    else if (key === "Enter" && node && node.module) view.toggle(node.module);
    else if (key.toLowerCase() === "c" && node && !node.module) close();
    else return;
    event.preventDefault();
  });

  function step(node, key) {
    if (!node) { state.select(0, "keys"); return; }
    const near = view.near(node), place = near.layer.indexOf(node);
    const next = { ArrowUp: near.from[0], ArrowDown: near.to[0],
      ArrowLeft: near.layer[place - 1], ArrowRight: near.layer[place + 1] }[key];
    if (next) state.select(next.ops[0], "keys");
  }

  function close() {
    const { module } = model.ops[state.selected];
    if (module) view.toggle(module);
  }
};
