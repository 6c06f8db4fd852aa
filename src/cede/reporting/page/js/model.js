"use strict";

// The report's data with indices in place of ids; everything else works on these.
const cede = {};

cede.readModel = function (data) {
  const ops = data.ops, byId = new Map(ops.map((op, i) => [op.op, i]));
  const producers = ops.map((op) => [...new Set(op.inputs.map((id) => byId.get(id)))]
    .filter((i) => i !== undefined));
  const consumers = ops.map(() => []);
  producers.forEach((from, i) => from.forEach((j) => consumers[j].push(i)));
  // the branches of a control-flow op stand directly before it and belong to scopes of their own
  const delegates = new Map(data.delegates.map((d, i) => [d.id, i]));
  const delegateOf = ops.map((op) => (op.delegate ? delegates.get(op.delegate) : -1));
  const text = ops.map((op) => [op.op, op.target, op.module, op.layer, op.source, op.delegate,
    op.backend, op.reason].join("\n").toLowerCase());
  return { data, ops, byId, producers, consumers, delegates, delegateOf, text };
};

cede.inModule = (path, module) =>
  !module || path === module || path.startsWith(module + ".");

// Neighbouring delegates differ in hue by the golden angle.
cede.colour = function (delegate, dark) {
  if (delegate < 0) return cede.themed("--left");
  const hue = (210 + delegate * 137.508) % 360;
  return `hsl(${hue.toFixed(1)} 62% ${dark ? 38 : 78}%)`;
};

cede.themed = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

cede.isDark = () => cede.themed("color-scheme").includes("dark") ||
  getComputedStyle(document.documentElement).colorScheme === "dark";

cede.quantity = function (value, unit = "") {
  let size = value, i = 0;
  const prefixes = ["", "k", "M", "G", "T"];
  while (size >= 999.5 && i < prefixes.length - 1) { size /= 1000; i += 1; }
  const digits = size < 999.5 ? String(Number(size.toPrecision(3))) : size.toFixed(0);
  return `${digits} ${prefixes[i]}${unit}`.trim();
};
