// The graph on its canvas: zoom and pan (d3-zoom), modules that open and close, selection.
cede.FEW = 1500; // with more ops modules start closed

cede.makeGraph = function (canvas, model, state) {
  const context = canvas.getContext("2d");
  const paths = cede.modulePaths(model.ops);
  const depths = Math.max(0, ...paths.values());
  let opened = new Set(), graph, paint, asked = false, transform = d3.zoomIdentity;
  const view = { draws: 0, spent: 0 };

  const zoom = d3.zoom().scaleExtent([0.002, 4]).on("zoom", (event) => {
    transform = event.transform;
    redraw();
  });
  const picture = d3.select(canvas).call(zoom).on("dblclick.zoom", null);

  function redraw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  }

  function draw() {
    const begun = performance.now(), ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.translate(transform.x, transform.y);
    context.scale(transform.k, transform.k);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    cede.drawGraph(context, graph, cede.viewOf(transform, width, height), paint);
    view.draws += 1;
    view.spent += performance.now() - begun;
  }

  function repaint() {
    const dark = cede.isDark(), colours = model.data.delegates.map((_, i) => cede.colour(i, dark));
    const left = cede.colour(-1, dark);
    const colourOf = (d) => (d < 0 ? left : colours[d]);
    paint = {
      line: cede.themed("--soft"), soft: cede.themed("--soft"), fore: cede.themed("--fore"),
      leftText: cede.themed("--left-text"), accent: cede.themed("--accent"),
      selected: state.selected < 0 ? -1 : graph.nodeOf[state.selected],
      dimmed: (node) => state.matching !== null && !node.ops.some((i) => state.matching.has(i)),
      left: (node) => node.ops.every((i) => model.delegateOf[i] < 0),
      label: (node) => cut(node.module ? `${node.module} (${node.ops.length})` : model.ops[node.ops[0]].op),
      fill(to, node, width, height) {
        let x = node.x; // a closed module shows the shares of its delegates
        for (const [d, n] of shares(node)) {
          to.fillStyle = colourOf(d);
          to.fillRect(x, node.y, (width * n) / node.ops.length, height);
          x += (width * n) / node.ops.length;
        }
      },
    };
    redraw();
  }

  function shares(node) {
    if (node.shares) return node.shares;
    const counts = new Map();
    for (const i of node.ops) counts.set(model.delegateOf[i], (counts.get(model.delegateOf[i]) || 0) + 1);
    node.shares = [...counts].sort((a, b) => b[1] - a[1]);
    return node.shares;
  }

  const cut = (text) => (text.length > 23 ? `…${text.slice(-22)}` : text);

  function rebuild() {
    const begun = performance.now();
    graph = cede.layout(model, opened);
    graph.long = cede.longEdges(graph);
    view.layout = performance.now() - begun;
    canvas.dataset.nodes = graph.nodes.length;
    repaint();
  }

  function openTo(depth) {
    opened = new Set([...paths].filter(([, d]) => d <= depth).map(([path]) => path));
    rebuild();
    fit();
  }

  function fit() {
    const { left, right, bottom } = graph.box, width = canvas.clientWidth;
    const k = Math.min(1, width / (right - left + 40), canvas.clientHeight / (bottom + 40));
    const readable = Math.max(k, Math.min(0.6, width / (right - left + 40)));
    const x = width / 2 - (readable * (left + right)) / 2;
    picture.call(zoom.transform, d3.zoomIdentity.translate(x, 10).scale(readable));
  }

  function whole() {
    const { left, right, bottom } = graph.box;
    const k = Math.min(1, canvas.clientWidth / (right - left + 40), canvas.clientHeight / (bottom + 40));
    picture.call(zoom.transform, d3.zoomIdentity
      .translate(canvas.clientWidth / 2 - (k * (left + right)) / 2, 10).scale(k));
  }

  function centre(i) {
    const node = graph.nodes[graph.nodeOf[i]], k = Math.max(transform.k, 0.6);
    const x = canvas.clientWidth / 2 - k * (node.x + cede.NODE.width / 2);
    const y = canvas.clientHeight / 2 - k * (node.y + cede.NODE.height / 2);
    picture.call(zoom.transform, d3.zoomIdentity.translate(x, y).scale(k));
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = transform.invert([event.clientX - box.left, event.clientY - box.top]);
    const layer = graph.layers[Math.floor(y / (cede.NODE.height + cede.NODE.gapY))] || [];
    const inside = (n) => x >= graph.nodes[n].x && x <= graph.nodes[n].x + cede.NODE.width &&
      y <= graph.nodes[n].y + cede.NODE.height;
    return graph.nodes[layer.find(inside)];
  }

  function toggle(module) {
    const still = state.selected;
    if (opened.has(module)) opened.delete(module); else opened.add(module);
    rebuild();
    if (still >= 0) centre(still);
  }

  Object.assign(view, {
    openTo, fit, whole, centre, redraw, repaint, at, toggle, draw, depths,
    zoomBy: (factor) => picture.call(zoom.scaleBy, factor),
    panBy: (x, y) => picture.call(zoom.translateBy, x / transform.k, y / transform.k),
    node: () => (state.selected < 0 ? null : graph.nodes[graph.nodeOf[state.selected]]),
    near: (node) => ({ from: node.from.map((n) => graph.nodes[n]), to: node.to.map((n) => graph.nodes[n]),
      layer: graph.layers[node.layer].map((n) => graph.nodes[n]) }),
    startDepth: model.ops.length <= cede.FEW ? depths
      : Math.max(0, ...Array.from({ length: depths + 1 }, (_, d) => d)
        .filter((d) => visible(d) <= cede.FEW)),
  });

  function visible(depth) {
    const some = new Set([...paths].filter(([, d]) => d <= depth).map(([path]) => path));
    const known = new Map([["", ""]]), shown = new Set();
    model.ops.forEach((op, i) => shown.add(cede.closedModule(op.module, some, known) || i));
    return shown.size;
  }

  cede.graphInput(canvas, view, state, model);
  new ResizeObserver(redraw).observe(canvas);
  return view;
};

// Mouse and keyboard on the graph.
cede.graphInput = function (canvas, view, state) {
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
    else if (key === "c" && node && !node.module) close();
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
    const module = cede.moduleOf(state.selected);
    if (module) view.toggle(module);
  }
};
