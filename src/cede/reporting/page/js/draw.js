// One frame of the graph: only what is in view, with less detail the smaller it is.
cede.LONG = 12; // edges over more layers are looked at whatever is in view

cede.longEdges = (graph) =>
  graph.edges.filter(([a, b]) => Math.abs(graph.nodes[b].layer - graph.nodes[a].layer) > cede.LONG);

cede.viewOf = function (transform, width, height) {
  const { k, x, y } = transform;
  return { left: -x / k, top: -y / k, right: (width - x) / k, bottom: (height - y) / k, k };
};

cede.drawGraph = function (context, graph, view, paint) {
  const pitch = cede.NODE.height + cede.NODE.gapY;
  const first = Math.max(0, Math.floor(view.top / pitch) - 1);
  const last = Math.min(graph.layers.length - 1, Math.ceil(view.bottom / pitch));
  drawEdges(context, graph, view, first, last);
  for (let l = first; l <= last; l += 1) {
    for (const n of graph.layers[l]) {
      const node = graph.nodes[n];
      if (node.x > view.right) break; // sorted by x
      if (node.x + cede.NODE.width >= view.left) drawNode(context, node, n, view.k, paint);
    }
  }

  function drawEdges() {
    context.beginPath();
    for (let l = Math.max(0, first - cede.LONG); l <= Math.min(graph.layers.length - 1, last + cede.LONG); l += 1) {
      for (const n of graph.layers[l]) {
        for (const from of graph.nodes[n].from) {
          if (Math.abs(graph.nodes[from].layer - l) <= cede.LONG) line(graph.nodes[from], graph.nodes[n]);
        }
      }
    }
    for (const [a, b] of graph.long) line(graph.nodes[a], graph.nodes[b]);
    context.strokeStyle = paint.line;
    context.lineWidth = Math.max(1, 0.6 / view.k);
    context.stroke();
  }

  function line(a, b) {
    const half = cede.NODE.width / 2, x1 = a.x + half, x2 = b.x + half;
    const y1 = a.y + cede.NODE.height, y2 = b.y;
    if (Math.max(x1, x2) < view.left || Math.min(x1, x2) > view.right) return;
    if (Math.max(y1, y2) < view.top || Math.min(y1, y2) > view.bottom) return;
    context.moveTo(x1, y1);
    if (view.k < 0.3) { context.lineTo(x2, y2); return; }
    const bend = cede.NODE.gapY * 0.8, span = b.layer - a.layer;
    // past the nodes between, not behind them
    const aside = span > 1 ? half * 1.4 + Math.min(span, 40) * 4 : 0;
    context.bezierCurveTo(x1 + aside, y1 + bend, x2 + aside, y2 - bend, x2, y2);
  }
};

function drawNode(context, node, n, scale, paint) {
  const { width, height } = cede.NODE;
  context.globalAlpha = paint.dimmed(node) ? 0.22 : 1;
  paint.fill(context, node, width, height);
  if (scale > 0.18) {
    context.lineWidth = 1;
    context.strokeStyle = node.module ? paint.fore : paint.soft;
    // dashes say "left" to those who can't tell the colours apart
    if (paint.left(node)) context.setLineDash([4, 3]);
    context.strokeRect(node.x, node.y, width, height);
    context.setLineDash([]);
    if (node.module) context.strokeRect(node.x + 2.5, node.y + 2.5, width - 5, height - 5);
  }
  if (scale > 0.42) {
    context.fillStyle = paint.left(node) ? paint.leftText : paint.fore;
    context.fillText(paint.label(node), node.x + 6, node.y + height / 2, width - 12);
  }
  if (n === paint.selected) {
    context.globalAlpha = 1;
    context.strokeStyle = paint.accent;
    context.lineWidth = Math.max(3, 2 / scale);
    context.strokeRect(node.x - 2, node.y - 2, width + 4, height + 4);
  }
  context.globalAlpha = 1;
}
