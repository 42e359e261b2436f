// The address behind `#` as a screen, and back.

const SCREENS = new Set(["stable", "work", "governor", "health"]);

/** `{screen, task, view}`; an address that means nothing is the first screen. */
export function routeOf(hash) {
  const parts = hash.replace(/^#?\/?/, "").split("/").map(decoded);
  if (parts[0] === "task" && parts[1]) return { screen: "task", task: parts[1], run: parts[2] ?? "" };
  if (parts[0] === "work") return { screen: "work", view: parts[1] === "graph" ? "graph" : "board" };
  return { screen: SCREENS.has(parts[0]) ? parts[0] : "stable" };
}

export function taskAddress(task) {
  return `#/task/${encodeURIComponent(task)}`;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
