// Send the token once, and return to the screen that was asked for.

const form = document.querySelector("form");
const refused = document.getElementById("refused");
const field = document.getElementById("token");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  refused.hidden = true;
  try {
    const answer = await fetch("/login", { method: "POST", body: new URLSearchParams(new FormData(form)), redirect: "manual" });
    if (answer.type === "opaqueredirect" || answer.ok) {
      location.replace(`/${location.hash}`);
      return;
    }
    showError(answer.status === 401 ? "Wrong token." : `The service answered ${answer.status}.`);
  } catch {
    showError("The service is not responding.");
  }
});

function showError(text) {
  refused.textContent = text;
  refused.hidden = false;
  field.select();
}
