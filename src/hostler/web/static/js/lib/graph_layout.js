// Lay out a graph in layers from left to right: dependencies stand left of their dependents.
// Cycles, dangling edges and duplicates are allowed. The result is deterministic.

const SWEEPS = 6;

/** Position `nodes` (ids) and `edges` ({from, to, …}). `size`: {width, height, gapX, gapY} of a
 *  node and the gaps between nodes; `columns`: nodes per row for those without edges.
 *  Returns {positions: Map id → {x, y, layer}, edges: [{…edge, points}], width, height}. */
export function layoutGraph(nodes, edges, size, columns = 4) {
  const known = new Set(nodes);
  const kept = unique(edges.filter((edge) => known.has(edge.from) && known.has(edge.to) && edge.from !== edge.to));
  const linked = new Set(kept.flatMap((edge) => [edge.from, edge.to]));
  const inner = [...known].filter((id) => linked.has(id));
  const forward = acyclic(inner, kept);
  const layers = splitLongEdges(assignLayers(inner, forward), forward);
  reduceCrossings(layers);
  const positions = assignPositions(layers, size);
  const drawn = routeEdges(kept, layers, positions, size);
  const unconnected = [...known].filter((id) => !linked.has(id));
  return combine(inner, unconnected, positions, drawn, size, columns);
}

function unique(edges) {
  const names = new Set();
  return edges.filter((edge) => {
    const name = JSON.stringify([edge.from, edge.to]);
    return !names.has(name) && names.add(name);
  });
}

/** Reverse the edges that close a cycle. */
function acyclic(nodes, edges) {
  const out = grouped(edges, (edge) => edge.from);
  const state = new Map();
  const reversed = new Set();
  for (const root of nodes) {
    if (state.has(root)) continue;
    const stack = [[root, 0]];
    state.set(root, "open");
    while (stack.length) {
      const top = stack[stack.length - 1];
      const edge = (out.get(top[0]) ?? [])[top[1]];
      top[1] += 1;
      if (!edge) {
        state.set(top[0], "done");
        stack.pop();
      } else if (state.get(edge.to) === "open") reversed.add(edge);
      else if (!state.has(edge.to)) {
        state.set(edge.to, "open");
        stack.push([edge.to, 0]);
      }
    }
  }
  return edges.map((edge) => (reversed.has(edge) ? { from: edge.to, to: edge.from, edge } : { from: edge.from, to: edge.to, edge }));
}

function grouped(items, by) {
  const found = new Map();
  for (const item of items) {
    const name = by(item);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(item);
  }
  return found;
}

/** Return each node's layer: the length of the longest path to it. */
function assignLayers(nodes, forward) {
  const incoming = new Map(nodes.map((id) => [id, 0]));
  for (const edge of forward) incoming.set(edge.to, incoming.get(edge.to) + 1);
  const out = grouped(forward, (edge) => edge.from);
  const layer = new Map(nodes.map((id) => [id, 0]));
  const ready = nodes.filter((id) => incoming.get(id) === 0);
  for (let at = 0; at < ready.length; at += 1) {
    for (const edge of out.get(ready[at]) ?? []) {
      layer.set(edge.to, Math.max(layer.get(edge.to), layer.get(ready[at]) + 1));
      incoming.set(edge.to, incoming.get(edge.to) - 1);
      if (incoming.get(edge.to) === 0) ready.push(edge.to);
    }
  }
  return layer;
}

/** Return the rows of each layer, with a bend for each layer that an edge crosses. */
function splitLongEdges(layer, forward) {
  const rows = [];
  const cell = new Map();
  const add = (key, at, id) => {
    const made = { id, layer: at, left: [], right: [] };
    (rows[at] ??= []).push(made);
    cell.set(key, made);
    return made;
  };
  for (const [id, at] of layer) add(`n ${id}`, at, id);
  for (const [number, edge] of forward.entries()) {
    let before = cell.get(`n ${edge.from}`);
    for (let at = layer.get(edge.from) + 1; at < layer.get(edge.to); at += 1) {
      before = joined(before, add(`b ${number} ${at}`, at, null));
    }
    joined(before, cell.get(`n ${edge.to}`));
  }
  return { rows, cell, layer, forward };
}

function joined(left, right) {
  left.right.push(right);
  right.left.push(left);
  return right;
}

/** Reduce crossings: sort each row by the mean position of its neighbours, alternating sides. */
function reduceCrossings({ rows }) {
  for (const row of rows) row.forEach((cell, at) => (cell.order = at));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const [side, list] = sweep % 2 ? ["right", [...rows].reverse()] : ["left", rows];
    for (const row of list) {
      const target = new Map(row.map((cell) => [cell, mean(cell[side].map((one) => one.order), cell.order)]));
      row.sort((a, b) => target.get(a) - target.get(b) || a.order - b.order);
      row.forEach((cell, at) => (cell.order = at));
    }
  }
}

function mean(numbers, otherwise) {
  return numbers.length ? numbers.reduce((sum, one) => sum + one, 0) / numbers.length : otherwise;
}

/** Position rows in order, then move each cell as close to its neighbours as its row allows. */
function assignPositions({ rows }, size) {
  const step = size.height + size.gapY;
  for (const row of rows) row.forEach((cell, at) => (cell.y = at * step));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const [side, list] = sweep % 2 ? ["right", [...rows].reverse()] : ["left", rows];
    for (const row of list) alignRow(row, side, step);
  }
  const top = Math.min(...rows.flat().filter((cell) => cell.id !== null).map((cell) => cell.y));
  for (const cell of rows.flat()) cell.y -= top;
  return rows;
}

function alignRow(row, side, step) {
  const target = row.map((cell) => mean(cell[side].map((one) => one.y), cell.y));
  const distance = (a, b) => (a.id === null && b.id === null ? step / 2 : step);
  const down = [];
  const up = [];
  row.forEach((cell, at) => (down[at] = at ? Math.max(target[at], down[at - 1] + distance(row[at - 1], cell)) : target[at]));
  for (let at = row.length - 1; at >= 0; at -= 1) {
    up[at] = at < row.length - 1 ? Math.min(target[at], up[at + 1] - distance(row[at], row[at + 1])) : target[at];
  }
  row.forEach((cell, at) => (cell.y = (down[at] + up[at]) / 2));
}

function routeEdges(edges, { cell, layer, forward }, rows, size) {
  const x = (at) => at * (size.width + size.gapX);
  return forward.map(({ from, to, edge }, number) => {
    const points = [[x(layer.get(from)) + size.width, cell.get(`n ${from}`).y + size.height / 2]];
    for (let at = layer.get(from) + 1; at < layer.get(to); at += 1) {
      const bend = cell.get(`b ${number} ${at}`);
      const y = bend.y + size.height / 2;
      points.push([x(at), y], [x(at) + size.width, y]);
    }
    points.push([x(layer.get(to)), cell.get(`n ${to}`).y + size.height / 2]);
    return { ...edge, points: edge.from === from ? points : points.reverse() };
  });
}

/** Combine the graph with a grid of the nodes without edges below it. */
function combine(inner, unconnected, rows, edges, size, columns) {
  const positions = new Map();
  let [width, height] = [0, 0];
  const position = (id, at, y, layer) => {
    const x = at * (size.width + size.gapX);
    positions.set(id, { x, y, layer });
    width = Math.max(width, x + size.width);
    height = Math.max(height, y + size.height);
  };
  for (const cell of rows.flat()) if (cell.id !== null) position(cell.id, cell.layer, cell.y, cell.layer);
  const below = inner.length ? height + size.gapY * 2 : 0;
  const step = size.height + size.gapY;
  unconnected.forEach((id, at) => position(id, at % columns, below + Math.floor(at / columns) * step, null));
  return { positions, edges, width, height };
}

/** Return a smooth SVG path through the points of an edge. */
export function path(points) {
  const [first, ...rest] = points.map(([x, y]) => [round(x), round(y)]);
  let text = `M${first[0]} ${first[1]}`;
  let [px, py] = first;
  for (const [x, y] of rest) {
    const half = round((px + x) / 2);
    text += py === y ? ` H${x}` : ` C${half} ${py} ${half} ${y} ${x} ${y}`;
    [px, py] = [x, y];
  }
  return text;
}

function round(number) {
  return Math.round(number * 10) / 10;
}
