// Where the graph is looked at from: zoom and pan by d3-zoom.
cede.makeCamera = function (canvas, moved) {
  const camera = { transform: d3.zoomIdentity };
  const zoom = d3.zoom().scaleExtent([0.002, 4]).on("zoom", (event) => {
    camera.transform = event.transform;
    moved();
  });
  const picture = d3.select(canvas).call(zoom).on("dblclick.zoom", null);
  const look = (x, y, k) =>
    picture.call(zoom.transform, d3.zoomIdentity.translate(x, y).scale(k));
  const margin = 40;

  function scales(box) {
    const across = canvas.clientWidth / (box.right - box.left + margin);
    return { across, all: Math.min(1, across, canvas.clientHeight / (box.bottom + margin)) };
  }

  function top(box, k) {
    look(canvas.clientWidth / 2 - (k * (box.left + box.right)) / 2, 10, k);
  }

  camera.whole = (box) => top(box, scales(box).all);
  camera.readable = function (box) { // its beginning, if all of it would be too small to read
    const { across, all } = scales(box);
    top(box, Math.max(all, Math.min(0.6, across)));
  };
  camera.centre = function (node) {
    const k = Math.max(camera.transform.k, 0.6), { width, height } = cede.NODE;
    look(canvas.clientWidth / 2 - k * (node.x + width / 2),
      canvas.clientHeight / 2 - k * (node.y + height / 2), k);
  };
  camera.zoomBy = (factor) => picture.call(zoom.scaleBy, factor);
  camera.panBy = (x, y) =>
    picture.call(zoom.translateBy, x / camera.transform.k, y / camera.transform.k);
  return camera;
};
