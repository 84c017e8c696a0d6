// The colours of a page: those of the system, or those of the menu, which the browser remembers.

const STORED = "theme";

export function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch { // private windows
    return null;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch { /* private windows */ }
}

// Paper is always light.
export function colour(value) {
  if (value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
  for (const link of document.querySelectorAll("link[data-pictures]")) {
    const own = link.dataset.pictures;
    const onScreen = { auto: `screen and (prefers-color-scheme: ${own})`, [own]: "screen" }[value] ?? "not all";
    link.media = own === "light" ? `${onScreen}, print` : onScreen;
  }
}

const menu = document.getElementById("theme");
menu.value = remembered(STORED) ?? "auto";
if (!menu.value) menu.value = "auto";
colour(menu.value);
menu.addEventListener("change", () => {
  colour(menu.value);
  remember(STORED, menu.value);
});
