// Light or dark, before anything is drawn. The wish is the only thing that a page keeps.
(() => {
  const KEPT = "hostler-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const wish = () => {
    try {
      return localStorage.getItem(KEPT);
    } catch {
      return null; // a browser that keeps nothing: the system's wish is as good
    }
  };
  const apply = () => {
    const wanted = wish();
    const theme = wanted === "light" || wanted === "dark" ? wanted : dark.matches ? "dark" : "light";
    document.documentElement.dataset.theme = theme;
  };
  globalThis.hostlerTheme = {
    now: () => document.documentElement.dataset.theme,
    turn: () => {
      const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try {
        // The system's own wish need not be kept: it may change.
        if ((next === "dark") === dark.matches) localStorage.removeItem(KEPT);
        else localStorage.setItem(KEPT, next);
      } catch {
        // Then it holds for this page alone.
      }
      document.documentElement.dataset.theme = next;
    },
  };
  dark.addEventListener("change", apply);
  apply();
})();
