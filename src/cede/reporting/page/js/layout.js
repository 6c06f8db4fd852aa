// A layered layout in linear time but for one sort a layer: the layer of a node is the longest path
// to it, its place in the layer the mean of its producers' places (one barycentre sweep; Sugiyama,
// Tagawa and Toda 1981). Edges that a collapsed module turns backwards are drawn, not layered.
cede.NODE = { width: 150, height: 26, gapX: 18, gapY: 30 };

cede.modulePaths = function (ops) {
  const paths = new Map();
  for (const op of ops) {
    if (!op.module || paths.has(op.module)) continue;
    const words = op.module.split(".");
    for (let n = 1; n <= words.length; n += 1) paths.set(words.slice(0, n).join("."), n);
  }
  return paths; // path -> depth
};

// Which module an op shows as, "" for itself: the outermost module on its path that is closed.
cede.closedModule = function (path, opened, known) {
  if (known.has(path)) return known.get(path);
  const cut = path.lastIndexOf(".");
  const outer = path ? cede.closedModule(cut < 0 ? "" : path.slice(0, cut), opened, known) : "";
  const found = outer || (path && !opened.has(path) ? path : "");
  known.set(path, found);
  return found;
};

cede.condense = function (model, opened) {
  const known = new Map([["", ""]]), ofModule = new Map(), nodes = [];
  const nodeOf = new Int32Array(model.ops.length);
  model.ops.forEach((op, i) => {
    const module = cede.closedModule(op.module, opened, known);
    let n = module ? ofModule.get(module) : undefined;
    if (n === undefined) {
      n = nodes.length;
      nodes.push({ module, ops: [], x: 0, y: 0, layer: 0, from: [], to: [] });
      if (module) ofModule.set(module, n);
    }
    nodes[n].ops.push(i);
    nodeOf[i] = n;
  });
  const seen = new Set(), edges = [];
  model.producers.forEach((from, i) => from.forEach((j) => {
    const a = nodeOf[j], b = nodeOf[i], key = a * nodes.length + b;
    if (a === b || seen.has(key)) return;
    seen.add(key);
    edges.push([a, b]);
    nodes[a].to.push(b);
    nodes[b].from.push(a);
  }));
  return { nodes, edges, nodeOf };
};

cede.layout = function (model, opened) {
  const graph = cede.condense(model, opened), { nodes } = graph;
  nodes.forEach((node, n) => {
    for (const from of node.from) if (from < n) node.layer = Math.max(node.layer, nodes[from].layer + 1);
  });
  for (let n = nodes.length - 1; n >= 0; n -= 1) { // what reads no op stands by its first reader
    const later = nodes[n].to.filter((to) => to > n);
    if (nodes[n].from.length || !later.length) continue;
    nodes[n].layer = Math.max(0, later.reduce((m, to) => Math.min(m, nodes[to].layer), Infinity) - 1);
  }
  const layers = [];
  nodes.forEach((node, n) => (layers[node.layer] ||= []).push(n));
  graph.layers = Array.from(layers, (layer) => layer || []);
  graph.layers.forEach((layer, depth) => cede.place(nodes, layer, depth));
  graph.box = cede.bounds(nodes);
  return graph;
};

cede.place = function (nodes, layer, depth) {
  const { width, gapX, height, gapY } = cede.NODE, step = width + gapX;
  const wish = new Map(layer.map((n) => {
    const placed = nodes[n].from.filter((from) => nodes[from].layer < depth);
    const sum = placed.reduce((x, from) => x + nodes[from].x, 0);
    return [n, placed.length ? sum / placed.length : 0];
  }));
  layer.sort((a, b) => wish.get(a) - wish.get(b) || a - b);
  let end = -Infinity, shift = 0;
  for (const n of layer) {
    nodes[n].x = Math.max(wish.get(n), end);
    nodes[n].y = depth * (height + gapY);
    end = nodes[n].x + step;
    shift += wish.get(n) - nodes[n].x;
  }
  for (const n of layer) nodes[n].x += shift / layer.length;
};

cede.bounds = function (nodes) {
  const box = { left: Infinity, top: 0, right: -Infinity, bottom: 0 };
  for (const node of nodes) {
    box.left = Math.min(box.left, node.x);
    box.right = Math.max(box.right, node.x + cede.NODE.width);
    box.bottom = Math.max(box.bottom, node.y + cede.NODE.height);
  }
  return nodes.length ? box : { left: 0, top: 0, right: 1, bottom: 1 };
};
