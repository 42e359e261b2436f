// Convert between the URL fragment and a screen.

const SCREENS = new Set(["overview", "work", "governor", "health"]);

/** Return `{screen, task, view}`; an unknown address is the overview. */
export function parseRoute(hash) {
  const parts = hash.replace(/^#?\/?/, "").split("/").map(decode);
  if (parts[0] === "task" && parts[1]) return { screen: "task", task: parts[1], run: parts[2] ?? "" };
  if (parts[0] === "work") return { screen: "work", view: parts[1] === "graph" ? "graph" : "board" };
  return { screen: SCREENS.has(parts[0]) ? parts[0] : "overview" };
}

export function taskAddress(task) {
  return `#/task/${encodeURIComponent(task)}`;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
