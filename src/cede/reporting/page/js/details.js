// Everything about the selected op, with buttons to its neighbours and links that filter.
cede.makeDetails = function (element, model, state) {
  function make(tag, text, to) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (to) to.append(made);
    return made;
  }

  function link(kind, value, to) {
    if (!value) { to.append("-"); return; }
    make("a", value, to).href = `#${kind}=${encodeURIComponent(value)}`;
  }

  function neighbours(title, indices, list) {
    make("dt", title, list);
    const cell = make("dd", undefined, list);
    if (!indices.length) cell.append("none");
    for (const i of indices.slice(0, 40)) {
      const button = make("button", model.ops[i].op, cell);
      button.type = "button";
      button.addEventListener("click", () => state.select(i, "details"));
    }
    if (indices.length > 40) cell.append(` and ${indices.length - 40} more`);
  }

  function answers(op) {
    const table = document.createElement("table");
    const head = make("tr", undefined, make("thead", undefined, table));
    for (const title of ["partitioner", "answer", "reason"]) make("th", title, head).scope = "col";
    const body = make("tbody", undefined, table);
    for (const answer of op.answers) {
      const row = make("tr", undefined, body);
      make("td", answer.partitioner, row);
      make("td", answer.outcome, row);
      make("td", answer.code ? `${answer.code}: ${answer.detail}` : "", row);
    }
    return table;
  }

  state.on("select", (i) => {
    const op = model.ops[i];
    if (!op) return;
    element.replaceChildren();
    make("h3", op.op, element);
    const list = make("dl", undefined, element);
    const row = (title) => { make("dt", title, list); return make("dd", undefined, list); };
    row("operator").textContent = op.target;
    link("delegate", op.delegate, row("delegate"));
    row("backend").textContent = op.backend || "left";
    link("module", op.module, row("module"));
    link("source", op.source, row("source: all ops of that line"));
    if (op.layer) row("layer").textContent = op.layer;
    if (op.scope) row("branch").textContent = op.scope;
    row("dtype/shape").textContent = op.outputs || "-";
    row("FLOPs, bytes").textContent = `${cede.quantity(op.flops)}, ${cede.quantity(op.bytes, "B")}`;
    element.append(answers(op));
    const more = make("dl", undefined, element);
    neighbours("reads", model.producers[i], more);
    neighbours("read by", model.consumers[i], more);
    const others = op.inputs.filter((id) => !model.byId.has(id));
    if (others.length) { make("dt", "inputs and constants", more); make("dd", others.join(", "), more); }
  });
};
