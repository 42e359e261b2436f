// A description of elements, and the smallest change of the page that makes it so.
// Texts become text nodes; there is no way to put markup in.

const SVG = "http://www.w3.org/2000/svg";
const NO_CHILDREN = Object.freeze([]);
// What is a property of an element rather than an attribute, because people change it.
const LIVE = new Set(["value", "checked", "selected"]);

/** Describe an element. `props`: attributes; `on`: listeners by event; `vars`: CSS variables;
 *  `key`: who it is among its siblings; `made(element)`: once, when it is made;
 *  `island(element)`: fills it by itself, returns its end. */
export function h(tag, props, ...children) {
  const found = [];
  flatten(children, found);
  const given = props ?? {};
  return { tag, key: given.key, props: given, children: found.length ? found : NO_CHILDREN };
}

function flatten(children, into) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === true) continue;
    if (Array.isArray(child)) flatten(child, into);
    else into.push(typeof child === "object" ? child : String(child));
  }
}

/** Make the children of `root` what is described. */
export function render(root, description) {
  const next = [];
  flatten([description], next);
  patchChildren(root, next, root.namespaceURI === SVG);
}

/** Take everything out, and end all islands. */
export function clear(root) {
  patchChildren(root, NO_CHILDREN, false);
}

// -- one element ------------------------------------------------------------------------------

function create(node, inSvg) {
  if (typeof node === "string") return document.createTextNode(node);
  const svg = inSvg || node.tag === "svg";
  const element = svg ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  element.hostlerProps = {};
  // Options come first: a value that is not among them would not be taken.
  fill(element, node, svg);
  patchProps(element, node.props);
  node.props.made?.(element);
  if (node.props.island) element.hostlerEnd = node.props.island(element);
  return element;
}

function fill(element, node, svg) {
  if (!node.props.island) patchChildren(element, node.children, svg && node.tag !== "foreignObject");
}

function patch(element, node, inSvg) {
  if (typeof node === "string") {
    if (element.data !== node) element.data = node;
    return;
  }
  fill(element, node, inSvg || node.tag === "svg");
  patchProps(element, node.props);
}

function patchProps(element, next) {
  const before = element.hostlerProps;
  if (before === next) return;
  for (const name in before) if (!(name in next)) setProp(element, name, undefined, before[name]);
  for (const name in next) {
    if (before[name] !== next[name]) setProp(element, name, next[name], before[name]);
  }
  element.hostlerProps = next;
}

function setProp(element, name, value, before) {
  if (name === "key" || name === "island" || name === "made") return;
  if (name === "on") setListeners(element, value ?? {});
  else if (name === "vars") setVars(element, value ?? {}, before ?? {});
  else if (LIVE.has(name)) element[name] = value ?? "";
  else if (value === undefined || value === null || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function setVars(element, next, before) {
  for (const name in before) if (!(name in next)) element.style.removeProperty(name);
  for (const name in next) {
    if (next[name] !== before[name]) element.style.setProperty(name, String(next[name]));
  }
}

/** One listener per event stays; what it calls is looked up when it happens. */
function setListeners(element, listeners) {
  const known = (element.hostlerOn ??= {});
  for (const type in listeners) if (!(type in known)) element.addEventListener(type, heard);
  element.hostlerOn = { ...Object.fromEntries(Object.keys(known).map((k) => [k, null])), ...listeners };
}

function heard(event) {
  event.currentTarget.hostlerOn[event.type]?.(event);
}

// -- children ---------------------------------------------------------------------------------

function patchChildren(parent, next, svg) {
  const before = (parent.hostlerKids ??= new Map());
  const after = new Map();
  const counts = new Map();
  const order = next.map((node) => {
    const name = nameOf(node, counts, after);
    const known = before.get(name);
    after.set(name, known ?? { element: null });
    return [name, node];
  });
  // First out with what is gone: what stays then mostly stands where it should.
  for (const [name, kid] of before) if (!after.has(name)) remove(parent, kid.element);
  let cursor = parent.firstChild;
  for (const [name, node] of order) {
    const kid = after.get(name);
    if (kid.element === null) kid.element = create(node, svg);
    else patch(kid.element, node, svg);
    if (kid.element === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(kid.element, cursor);
  }
  parent.hostlerKids = after;
}

/** Without a key, the first `div` stays the first `div`, whatever else comes and goes. */
function nameOf(node, counts, taken) {
  const tag = typeof node === "string" ? "#text" : node.tag;
  const key = typeof node === "string" ? undefined : node.key;
  const wanted = key === undefined ? null : `${tag} ${key}`;
  if (wanted !== null && !taken.has(wanted)) return wanted;
  const count = counts.get(tag) ?? 0;
  counts.set(tag, count + 1);
  return `${tag}#${count}`;
}

function remove(parent, element) {
  endIslands(element);
  parent.removeChild(element);
}

function endIslands(element) {
  element.hostlerEnd?.();
  for (const kid of element.hostlerKids?.values() ?? []) endIslands(kid.element);
}
