import { clear, h, render } from "/static/js/lib/vdom.js";
import { any, dice, equal, holds, test } from "./harness.js";
export { run } from "./harness.js";

const root = () => document.createElement("div");

test("text is never interpreted as markup", () => {
  const place = root();
  render(place, h("p", { title: "<i>" }, "<img src=x onerror=alert(1)>", 5, null, false, ["a", ["b"]]));
  equal(place.innerHTML, '<p title="<i>">&lt;img src=x onerror=alert(1)&gt;5ab</p>'.replace('"<i>"', place.querySelector("p").outerHTML.includes("&lt;i&gt;") ? '"&lt;i&gt;"' : '"<i>"'));
  equal(place.querySelectorAll("img, i").length, 0);
});

test("keyed elements are kept when they move", () => {
  const place = root();
  const rows = (keys) => h("ul", {}, keys.map((key) => h("li", { key }, key)));
  render(place, rows(["a", "b", "c"]));
  const before = Object.fromEntries([...place.querySelectorAll("li")].map((one) => [one.textContent, one]));
  render(place, rows(["c", "x", "a"]));
  const after = [...place.querySelectorAll("li")];
  equal(after.map((one) => one.textContent), ["c", "x", "a"]);
  holds(after[0] === before.c && after[2] === before.a, "elements were created again");
});

test("removing an element does not move others", () => {
  const place = root();
  const rows = (keys) => keys.map((key) => h("li", { key }, key));
  render(place, rows(["a", "b", "c", "d"]));
  const watcher = new MutationObserver(() => {});
  watcher.observe(place, { childList: true });
  render(place, rows(["a", "c", "d"]));
  equal(watcher.takeRecords().length, 1);
});

test("rendering the same description changes nothing", () => {
  const place = root();
  const draw = () => h("div", { class: "a", vars: { "--x": 1 } }, "t", h("b", { key: 1 }, "u"));
  render(place, draw());
  const watcher = new MutationObserver(() => {});
  watcher.observe(place, { childList: true, subtree: true, attributes: true, characterData: true });
  render(place, draw());
  equal(watcher.takeRecords().length, 0);
});

test("the current listeners are called, and removed ones are not", () => {
  const place = root();
  const calls = [];
  render(place, h("button", { on: { click: () => calls.push(1) } }));
  const button = place.firstChild;
  button.click();
  render(place, h("button", { on: { click: () => calls.push(2) } }));
  button.click();
  render(place, h("button", {}));
  button.click();
  equal(calls, [1, 2]);
});

test("user input stays unless the description changes", () => {
  const place = root();
  const draw = (value) => h("input", { value, class: "x" });
  render(place, draw("a"));
  place.firstChild.value = "typed";
  render(place, draw("a"));
  equal(place.firstChild.value, "typed");
  render(place, draw("b"));
  equal(place.firstChild.value, "b");
});

test("mounted elements manage themselves and unmount once", () => {
  const place = root();
  const ended = [];
  const mount = (name) => h("section", {}, h("div", { key: name, mount: (element) => (element.append("own"), () => ended.push(name)) }));
  render(place, mount("a"));
  render(place, mount("a"));
  equal(place.textContent, "own");
  render(place, mount("b"));
  equal(ended, ["a"]);
  clear(place);
  equal(ended, ["a", "b"]);
});

test("SVG elements have the SVG namespace", () => {
  const place = root();
  render(place, h("svg", { viewBox: "0 0 1 1" }, h("a", { href: "#x" }, h("text", {}, "t"))));
  equal(place.querySelector("text").namespaceURI, "http://www.w3.org/2000/svg");
});

function randomTree(roll, depth = 0) {
  if (depth > 3 || roll() < 0.25) return any(roll, ["x", "y", "<z>"]);
  const keyed = roll() < 0.5;
  const children = Array.from({ length: Math.floor(roll() * 5) }, () => randomTree(roll, depth + 1));
  const props = roll() < 0.5 ? { class: any(roll, ["a", "b"]), hidden: roll() < 0.3 } : {};
  return h(any(roll, ["div", "p", "b"]), keyed ? { ...props, key: Math.floor(roll() * 4) } : props, children);
}

test("patching gives the same result as rendering from scratch", () => {
  const roll = dice(99);
  const place = root();
  for (let round = 0; round < 1500; round += 1) {
    const next = h("main", {}, randomTree(roll), randomTree(roll));
    render(place, next);
    const fresh = root();
    render(fresh, next);
    equal(place.innerHTML, fresh.innerHTML);
  }
});
