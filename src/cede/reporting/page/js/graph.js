// The graph on its canvas: modules that open and close, selection, frames.
cede.FEW = 1500; // with more ops modules start closed

cede.makeGraph = function (canvas, model, state) {
  const context = canvas.getContext("2d"), paths = cede.modulePaths(model.ops);
  const view = { draws: 0, spent: 0, depths: Math.max(0, ...paths.values()) };
  let opened = new Set(), graph, paint, asked = false;
  const camera = cede.makeCamera(canvas, redraw);

  function redraw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      const begun = performance.now();
      asked = false;
      cede.frame(canvas, context, camera.transform, graph, paint);
      view.draws += 1;
      view.spent += performance.now() - begun;
    });
  }

  function repaint() {
    paint = cede.makePaint(model, state, graph);
    redraw();
  }

  function rebuild() {
    const begun = performance.now();
    graph = cede.layout(model, opened);
    graph.long = cede.longEdges(graph);
    view.layout = performance.now() - begun;
    canvas.dataset.nodes = graph.nodes.length;
    repaint();
  }

  const nodeOf = (i) => (i < 0 ? null : graph.nodes[graph.nodeOf[i]]);
  const nodes = (numbers) => numbers.map((n) => graph.nodes[n]);
  Object.assign(view, {
    redraw, repaint, zoomBy: camera.zoomBy, panBy: camera.panBy,
    startDepth: cede.startDepth(model, paths, view.depths),
    openTo(depth) {
      opened = cede.openedTo(paths, depth);
      rebuild();
      camera.readable(graph.box);
    },
    toggle(module) {
      if (!opened.delete(module)) opened.add(module);
      rebuild();
      if (state.selected >= 0) camera.centre(nodeOf(state.selected));
    },
    whole: () => camera.whole(graph.box),
    centre: (i) => camera.centre(nodeOf(i)),
    node: () => nodeOf(state.selected),
    at: (event) => cede.nodeAt(canvas, camera.transform, graph, event),
    near: (node) => ({
      from: nodes(node.from), to: nodes(node.to), layer: nodes(graph.layers[node.layer]),
    }),
  });
  cede.graphInput(canvas, view, state, model);
  new ResizeObserver(redraw).observe(canvas);
  return view;
};

cede.openedTo = (paths, depth) =>
  new Set([...paths].filter(([, d]) => d <= depth).map(([path]) => path));

// The deepest depth that shows few nodes; all of it where there are few ops.
cede.startDepth = function (model, paths, depths) {
  if (model.ops.length <= cede.FEW) return depths;
  for (let depth = depths; depth > 0; depth -= 1) {
    const opened = cede.openedTo(paths, depth), known = new Map([["", ""]]), shown = new Set();
    model.ops.forEach((op, i) => shown.add(cede.closedModule(op.module, opened, known) || i));
    if (shown.size <= cede.FEW) return depth;
  }
  return 0;
};

cede.frame = function (canvas, context, transform, graph, paint) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.translate(transform.x, transform.y);
  context.scale(transform.k, transform.k);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  cede.drawGraph(context, graph, cede.viewOf(transform, width, height), paint);
};

cede.nodeAt = function (canvas, transform, graph, event) {
  const box = canvas.getBoundingClientRect(), { width, height, gapY } = cede.NODE;
  const [x, y] = transform.invert([event.clientX - box.left, event.clientY - box.top]);
  const inside = (n) => x >= graph.nodes[n].x && x <= graph.nodes[n].x + width &&
    y <= graph.nodes[n].y + height;
  return graph.nodes[(graph.layers[Math.floor(y / (height + gapY))] || []).find(inside)];
};
