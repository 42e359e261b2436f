// The dialog to submit a manual task.

import { api } from "../api.js";
import { h } from "../lib/vdom.js";
import { taskAddress } from "../lib/routes.js";

export function submitDialog(state) {
  const repos = state.snapshot?.repositories ?? [];
  const agents = Object.keys(state.config?.agent ?? {});
  return {
    title: "New task",
    submitLabel: "Submit",
    body: () => [
      h("div", { class: "field" }, h("label", { for: "prompt" }, "What should the agent do?"), h("textarea", { id: "prompt", name: "prompt", required: true, rows: 5, autofocus: true })),
      h(
        "div",
        { class: "fields" },
        h("div", { class: "field" }, h("label", { for: "repo" }, "Repository"), h("select", { id: "repo", name: "repo" }, h("option", { value: "", key: "none" }, "None (use a folder)"), repos.map((one) => h("option", { value: one.project, key: `r ${one.project}`, selected: one === repos[0] }, one.repo)))),
        h("div", { class: "field" }, h("label", { for: "cwd" }, "Or a folder on this machine"), h("input", { id: "cwd", name: "cwd", placeholder: "/home/me/project", spellcheck: "false" })),
        h("div", { class: "field" }, h("label", { for: "agent" }, "Agent"), h("select", { id: "agent", name: "agent" }, h("option", { value: "", key: "usual" }, "Default"), agents.map((name) => h("option", { value: name, key: `a ${name}` }, name)))),
        h("div", { class: "field" }, h("label", { for: "title" }, "Title"), h("input", { id: "title", name: "title", placeholder: "First line of the prompt", maxlength: 200 })),
      ),
      h("div", { class: "field" }, h("label", { for: "depends_on" }, "Depends on"), h("input", { id: "depends_on", name: "depends_on", placeholder: "Task IDs or issues, comma-separated: octo/hello#12", spellcheck: "false" })),
    ],
    submit: async (form) => {
      const receipt = await api.submit(buildRequest(form));
      location.hash = taskAddress(receipt.id);
      return receipt.status === "started" ? "Task started." : `Task queued${receipt.why ? `: ${receipt.why}` : "."}`;
    },
  };
}

/** Build the request from the form; a folder takes precedence over a repository. */
export function buildRequest(form) {
  const dependencies = form.depends_on.split(",").map((word) => word.trim()).filter(Boolean);
  const request = { prompt: form.prompt, agent: form.agent, title: form.title.trim(), depends_on: dependencies };
  return form.cwd.trim() ? { ...request, cwd: form.cwd.trim() } : { ...request, repo: form.repo };
}
