// The program in execution order, one slice an op; a slider for the keyboard.
cede.makeBar = function (canvas, model, state) {
  const context = canvas.getContext("2d");
  let ends = [];

  function setMeasure(measure) {
    let sum = 0;
    ends = model.ops.map((op) => (sum += measure === "ops" ? 1 : op[measure]));
    if (!sum) ends = model.ops.map((_, i) => i + 1);
    draw();
  }

  function draw() {
    const ratio = devicePixelRatio || 1, dark = cede.isDark();
    const width = (canvas.width = Math.round(canvas.clientWidth * ratio));
    const height = (canvas.height = Math.round(canvas.clientHeight * ratio));
    const whole = ends[ends.length - 1] || 1, left = cede.colour(-1, dark);
    const colours = model.data.delegates.map((_, i) => cede.colour(i, dark));
    let begin = 0;
    model.ops.forEach((_, i) => {
      const x = (begin / whole) * width, d = model.delegateOf[i];
      begin = ends[i];
      context.globalAlpha = state.matching && !state.matching.has(i) ? 0.15 : 1;
      context.fillStyle = d < 0 ? left : colours[d];
      // what was left is half as high, to be told apart without colours
      const top = d < 0 ? height / 2 : 0;
      context.fillRect(x, top, Math.max((begin / whole) * width - x, 0.5), height - top);
    });
    context.globalAlpha = 1;
    if (state.selected >= 0) {
      const i = state.selected, from = i ? ends[i - 1] : 0;
      context.strokeStyle = cede.themed("--accent");
      context.lineWidth = 3 * ratio;
      context.strokeRect((from / whole) * width - 1, 1, Math.max(3, ((ends[i] - from) / whole) * width) + 2, height - 2);
    }
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * ends[ends.length - 1];
    let low = 0, high = ends.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] <= wanted) low = middle + 1; else high = middle;
    }
    return low;
  }

  function told(i) {
    const op = model.ops[i];
    return `${op.op}, ${op.delegate ? `${op.delegate} on ${op.backend}` : "outside of delegates"}`;
  }

  state.on("select", (i) => {
    canvas.setAttribute("aria-valuenow", i);
    canvas.setAttribute("aria-valuetext", told(i));
    draw();
  });
  state.on("match", draw);
  canvas.setAttribute("aria-valuemin", 0);
  canvas.setAttribute("aria-valuemax", Math.max(0, model.ops.length - 1));
  canvas.setAttribute("aria-valuenow", 0);
  canvas.addEventListener("click", (event) => ends.length && state.select(at(event), "bar"));
  canvas.addEventListener("mousemove", (event) => { if (ends.length) canvas.title = told(at(event)); });
  canvas.addEventListener("keydown", (event) => {
    const last = model.ops.length - 1, now = state.selected;
    const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1,
      PageUp: now + 50, PageDown: now - 50, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    state.select(Math.min(last, Math.max(0, to)), "bar");
  });
  new ResizeObserver(draw).observe(canvas);
  return { draw, setMeasure };
};
