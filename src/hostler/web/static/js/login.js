// The token is handed over once; what was wanted behind `#` is kept.

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
    say(answer.status === 401 ? "This is not the token." : `The service answered ${answer.status}.`);
  } catch {
    say("The service does not answer.");
  }
});

function say(words) {
  refused.textContent = words;
  refused.hidden = false;
  field.select();
}
