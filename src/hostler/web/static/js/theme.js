// Light or dark theme, set before the first render. The choice is kept in localStorage.
(() => {
  const STORAGE_KEY = "hostler-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const storedTheme = () => {
    try {
      return localStorage.getItem(STORAGE_KEY);
    } catch {
      return null; // storage is blocked: use the system's setting
    }
  };
  const apply = () => {
    const wanted = storedTheme();
    const theme = wanted === "light" || wanted === "dark" ? wanted : dark.matches ? "dark" : "light";
    document.documentElement.dataset.theme = theme;
  };
  globalThis.hostlerTheme = {
    now: () => document.documentElement.dataset.theme,
    toggle: () => {
      const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try {
        // Do not store the system's own setting, so that later changes apply.
        if ((next === "dark") === dark.matches) localStorage.removeItem(STORAGE_KEY);
        else localStorage.setItem(STORAGE_KEY, next);
      } catch {
        // Storage is blocked: the choice lasts until the page is closed.
      }
      document.documentElement.dataset.theme = next;
    },
  };
  dark.addEventListener("change", apply);
  apply();
})();
