// The op table (Tabulator): sorted and filtered by column, only the rows in view are elements.
cede.makeTable = function (element, model, state) {
  const rows = model.ops.map((op, i) => ({
    i, op: op.op, target: op.target, module: op.layer ? `${op.module} [${op.layer}]` : op.module,
    source: op.source, delegate: op.delegate || "-", backend: op.backend || "-",
    outputs: op.outputs, flops: op.flops, bytes: op.bytes,
    answers: op.answers.map((a) => `${a.partitioner}: ${a.outcome}${a.code ? ` (${a.code}: ${a.detail})` : ""}`).join("; "),
  }));
  const text = (title, field, width) => ({
    title, field, width, headerFilter: "input", headerFilterPlaceholder: "filter",
    headerFilterParams: { elementAttributes: { "aria-label": `Filter by ${title}` } },
  });
  const number = (title, field) => ({
    title, field, width: 90, hozAlign: "right", sorter: "number",
    formatter: (cell) => cede.quantity(cell.getValue()),
  });
  const table = new Tabulator(element, {
    data: rows, index: "i", height: "560px", layout: "fitDataFill", rowHeight: 26,
    selectableRows: 1, columnHeaderSortMulti: true, placeholder: "No op matches.",
    columnDefaults: { resizable: true, tooltip: true },
    columns: [
      { title: "#", field: "i", width: 60, sorter: "number", hozAlign: "right" },
      text("op", "op", 220), text("operator", "target", 190), text("module", "module", 170),
      linked(text("source", "source", 120), "source"),
      linked(text("delegate", "delegate", 90), "delegate"),
      text("backend", "backend", 90), text("dtype/shape", "outputs", 150),
      number("FLOPs", "flops"), number("bytes", "bytes"), text("answers", "answers", 420),
    ],
  });

  function linked(column, kind) {
    column.formatter = (cell) => {
      const value = cell.getValue();
      if (!value || value === "-") return document.createTextNode(value || "");
      const anchor = document.createElement("a");
      anchor.href = `#${kind}=${encodeURIComponent(value)}`;
      anchor.textContent = value;
      return anchor;
    };
    return column;
  }

  let own = false; // a selection that the table was told of is not told again
  const ready = new Promise((done) => table.on("tableBuilt", () => { headers(); done(); }));
  table.on("dataFiltered", (_, found) => state.setMatching(found.map((row) => row.getData().i)));
  table.on("rowSelected", (row) => { if (!own) state.select(row.getData().i, "table"); });

  state.on("filter", () => {
    if (state.search || state.link) table.setFilter((row) => state.passes(row.i));
    else table.clearFilter(false);
  });
  state.on("select", async (i, from) => {
    if (from === "table") return;
    own = true;
    table.deselectRow();
    if (i >= 0) table.selectRow(i);
    own = false;
    const shown = state.matching === null || state.matching.has(i);
    if (i >= 0 && shown) await table.scrollToRow(i, "center", false).catch(() => {});
  });

  function headers() {
    for (const column of table.getColumns()) {
      const cell = column.getElement();
      cell.tabIndex = 0;
      cell.addEventListener("keydown", (event) => {
        if (event.target !== cell || (event.key !== "Enter" && event.key !== " ")) return;
        event.preventDefault();
        const now = cell.getAttribute("aria-sort") === "ascending" ? "desc" : "asc";
        table.setSort(column.getField(), now);
      });
    }
    element.tabIndex = 0; // in place of the part of it that scrolls, which has no role
    element.querySelector(".tabulator-tableholder").removeAttribute("tabindex");
    element.setAttribute("aria-label", "Ops; up and down select one");
    element.addEventListener("keydown", (event) => {
      if (event.target.closest(".tabulator-header")) return;
      const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      const found = table.getRows("active").map((row) => row.getData().i);
      const place = found.indexOf(state.selected);
      const to = place < 0 ? 0 : Math.min(found.length - 1, Math.max(0, place + by));
      if (found.length) state.select(found[to], "keys");
    }, true);
  }

  return { table, ready };
};
