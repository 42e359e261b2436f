// Submitting a task by hand.

import { api } from "../api.js";
import { h } from "../lib/vdom.js";
import { taskAddress } from "../lib/routes.js";

export function submitDialog(state) {
  const repos = state.snapshot?.repositories ?? [];
  const agents = Object.keys(state.config?.agent ?? {});
  return {
    title: "New task",
    submitWords: "Submit",
    body: () => [
      h("div", { class: "field" }, h("label", { for: "prompt" }, "What is to be done"), h("textarea", { id: "prompt", name: "prompt", required: true, rows: 5, autofocus: true })),
      h(
        "div",
        { class: "fields" },
        h("div", { class: "field" }, h("label", { for: "repo" }, "Repository"), h("select", { id: "repo", name: "repo" }, h("option", { value: "", key: "none" }, "none: a folder"), repos.map((one) => h("option", { value: one.project, key: `r ${one.project}`, selected: one === repos[0] }, one.repo)))),
        h("div", { class: "field" }, h("label", { for: "cwd" }, "Or a folder of this machine"), h("input", { id: "cwd", name: "cwd", placeholder: "/home/me/project", spellcheck: "false" })),
        h("div", { class: "field" }, h("label", { for: "agent" }, "Agent"), h("select", { id: "agent", name: "agent" }, h("option", { value: "", key: "usual" }, "the usual one"), agents.map((name) => h("option", { value: name, key: `a ${name}` }, name)))),
        h("div", { class: "field" }, h("label", { for: "title" }, "Title"), h("input", { id: "title", name: "title", placeholder: "the prompt's first line", maxlength: 200 })),
      ),
      h("div", { class: "field" }, h("label", { for: "needs" }, "Waits for"), h("input", { id: "needs", name: "needs", placeholder: "tasks or issues, with commas: octo/hello#12", spellcheck: "false" })),
    ],
    submit: async (form) => {
      const taken = await api.submit(wishOf(form));
      location.hash = taskAddress(taken.id);
      return taken.status === "started" ? "It begins." : `It is queued${taken.why ? `: ${taken.why}` : "."}`;
    },
  };
}

/** What is asked for, from the fields; a folder comes before a repository. */
export function wishOf(form) {
  const needs = form.needs.split(",").map((word) => word.trim()).filter(Boolean);
  const wish = { prompt: form.prompt, agent: form.agent, title: form.title.trim(), depends_on: needs };
  return form.cwd.trim() ? { ...wish, cwd: form.cwd.trim() } : { ...wish, repo: form.repo };
}
