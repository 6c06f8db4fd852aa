// Colours and labels of the graph's nodes under the current theme, selection and matches.
cede.makePaint = function (model, state, graph) {
  const dark = cede.isDark(), left = cede.colour(-1, dark);
  const colours = model.data.delegates.map((_, i) => cede.colour(i, dark));
  return {
    line: cede.themed("--soft"), soft: cede.themed("--soft"), fore: cede.themed("--fore"),
    leftText: cede.themed("--left-text"), accent: cede.themed("--accent"),
    selected: state.selected < 0 ? -1 : graph.nodeOf[state.selected],
    dimmed: (node) => state.matching !== null && !node.ops.some((i) => state.matching.has(i)),
    left: (node) => node.ops.every((i) => model.delegateOf[i] < 0),
    label: (node) => (node.label ??= cede.labelOf(model, node)),
    fill(to, node, width, height) { // a closed module shows the shares of its delegates
      let x = node.x;
      for (const [delegate, ops] of cede.sharesOf(model, node)) {
        const part = (width * ops) / node.ops.length;
        to.fillStyle = delegate < 0 ? left : colours[delegate];
        to.fillRect(x, node.y, part, height);
        x += part;
      }
    },
  };
};

cede.labelOf = function (model, node) {
  const text = node.module ? `${node.module} (${node.ops.length})` : model.ops[node.ops[0]].op;
  return text.length > 26 ? `…${text.slice(-25)}` : text;
};

// Pairs of delegate and ops, most ops first.
cede.sharesOf = function (model, node) {
  if (node.shares) return node.shares;
  const counts = new Map();
  for (const i of node.ops) {
    counts.set(model.delegateOf[i], (counts.get(model.delegateOf[i]) || 0) + 1);
  }
  node.shares = [...counts].sort((a, b) => b[1] - a[1]);
  return node.shares;
};
