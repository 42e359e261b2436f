// A small virtual DOM: describe elements, and patch the page to match.
// Text always becomes text nodes; markup cannot be inserted.

const SVG = "http://www.w3.org/2000/svg";
const NO_CHILDREN = Object.freeze([]);
// Set as properties, because user input changes them.
const PROPERTIES = new Set(["value", "checked", "selected"]);

/** Describe an element. `props` are attributes, and: `on`: listeners by event; `vars`: CSS variables;
 *  `key`: identity among its siblings; `created(element)`: called once on creation;
 *  `mount(element)`: manages its own children and returns a function that unmounts it. */
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

/** Patch the children of `root` to match the description. */
export function render(root, description) {
  const next = [];
  flatten([description], next);
  patchChildren(root, next, root.namespaceURI === SVG);
}

/** Remove all children and unmount them. */
export function clear(root) {
  patchChildren(root, NO_CHILDREN, false);
}

// -- one element ------------------------------------------------------------------------------

function create(node, inSvg) {
  if (typeof node === "string") return document.createTextNode(node);
  const svg = inSvg || node.tag === "svg";
  const element = svg ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  element.hostlerProps = {};
  // Children first, because a select takes only a value that is among its options.
  fill(element, node, svg);
  patchProps(element, node.props);
  node.props.created?.(element);
  if (node.props.mount) element.hostlerUnmount = node.props.mount(element);
  return element;
}

function fill(element, node, svg) {
  if (!node.props.mount) patchChildren(element, node.children, svg && node.tag !== "foreignObject");
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
  if (name === "key" || name === "mount" || name === "created") return;
  if (name === "on") setListeners(element, value ?? {});
  else if (name === "vars") setVars(element, value ?? {}, before ?? {});
  else if (PROPERTIES.has(name)) element[name] = value ?? "";
  else if (value === undefined || value === null || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function setVars(element, next, before) {
  for (const name in before) if (!(name in next)) element.style.removeProperty(name);
  for (const name in next) {
    if (next[name] !== before[name]) element.style.setProperty(name, String(next[name]));
  }
}

/** Add one listener per event type; it calls the current handler. */
function setListeners(element, listeners) {
  const known = (element.hostlerListeners ??= {});
  for (const type in listeners) if (!(type in known)) element.addEventListener(type, dispatch);
  element.hostlerListeners = { ...Object.fromEntries(Object.keys(known).map((k) => [k, null])), ...listeners };
}

function dispatch(event) {
  event.currentTarget.hostlerListeners[event.type]?.(event);
}

// -- children ---------------------------------------------------------------------------------

function patchChildren(parent, next, svg) {
  const before = (parent.hostlerChildren ??= new Map());
  const after = new Map();
  const counts = new Map();
  const order = next.map((node) => {
    const name = nameOf(node, counts, after);
    const known = before.get(name);
    after.set(name, known ?? { element: null });
    return [name, node];
  });
  // Remove first, so that most remaining elements are already in place.
  for (const [name, child] of before) if (!after.has(name)) remove(parent, child.element);
  let cursor = parent.firstChild;
  for (const [name, node] of order) {
    const child = after.get(name);
    if (child.element === null) child.element = create(node, svg);
    else patch(child.element, node, svg);
    if (child.element === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(child.element, cursor);
  }
  parent.hostlerChildren = after;
}

/** Name a child by its key, or by its position among siblings of the same tag. */
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
  unmountAll(element);
  parent.removeChild(element);
}

function unmountAll(element) {
  element.hostlerUnmount?.();
  for (const child of element.hostlerChildren?.values() ?? []) unmountAll(child.element);
}
