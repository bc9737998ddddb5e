// Sets the colours before the first paint: ?theme= first, then what was chosen
// last time; without either the system decides.
(() => {
  const themes = ["light", "dark"];
  const remembered = () => {
    try {
      return localStorage.getItem("kvwatch-theme");
    } catch {
      return null; // storage may be forbidden; the system's theme is fine then
    }
  };
  const wanted = new URLSearchParams(location.search).get("theme") ?? remembered();
  if (themes.includes(wanted)) document.documentElement.dataset.theme = wanted;
})();
