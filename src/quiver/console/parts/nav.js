/** The pages at the side. */

import { h, show, svg } from "../lib/dom.js";
import { base, has } from "../lib/api.js";
import { GO, help } from "../lib/keys.js";

/** Icons of 16 by 16, drawn in lines. */
const ICONS = {
  overview: "M2 13V8M6 13V3M10 13V6M14 13V9",
  topics: "M2 4h12M2 8h12M2 12h12",
  publish: "M8 13V3M4 7l4-4 4 4",
  groups:
    "M5.500 7a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM2 13c0-2 1.500-3.500 3.500-3.500S9 11 9 13M11 7a1.700 1.700 0 1 0 0-3.400M11 9.500c1.800 0 3 1.400 3 3.500",
  "dead-letters": "M2 4h12v9H2zM2 4.500l6 4.500 6-4.500",
  delayed: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3l2.200 1.500",
  schedules: "M2.500 3.500h11v10h-11zM2.500 6.500h11M5.500 2v2.500M10.500 2v2.500",
  transactions: "M2 5h10M9.500 2.500 12 5 9.500 7.500M14 11H4M6.500 8.500 4 11l2.500 2.500",
  traces: "M2 4h6M5 8h6M8 12h6",
  cluster: "M6 2.500h4v3.500H6zM1.500 10h4v3.500h-4zM10.500 10h4v3.500h-4zM8 6v2M3.500 10V8h9v2",
  system: "M2.500 3h11v4h-11zM2.500 9h11v4h-11zM5 5h.01M5 11h.01",
};

const SECTIONS = [
  ["", ["o", "t", "p"]],
  ["Consumers", ["g", "d"]],
  ["Time", ["l", "s", "x"]],
  ["Inside", ["r", "c", "y"]],
];
const NEEDS = { r: "GET /traces", c: "GET /cluster/health" };

/** @param {string} name */
const icon = (name) =>
  svg(
    "svg",
    { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" },
    svg("path", { d: ICONS[/** @type {keyof typeof ICONS} */ (name)] }),
  );

/** @type {Set<string>} */
const absent = new Set(Object.keys(NEEDS));

/** @param {string | null} path of the page that is shown, if there is such a page */
export function drawNav(path) {
  const nav = /** @type {HTMLElement} */ (document.getElementById("nav"));
  const first = path === null ? "" : path.split("/")[0] || "overview";
  const items = SECTIONS.map(([title, letters]) => [
    title ? h("div", { class: "nav-title" }, title) : null,
    /** @type {string[]} */ (letters).filter((letter) => !absent.has(letter)).map((letter) => item(letter, first)),
  ]);
  const skip = h(
    "button",
    { class: "skip", onclick: () => document.getElementById("main")?.focus() },
    "Skip to the content",
  );
  show(
    nav,
    skip,
    h("a", { class: "brand", href: "#/", "aria-label": "Quiver, overview" }, arrow(), h("b", {}, "Quiver")),
    ...items,
    h("div", { class: "spacer" }),
    foot(),
  );
  for (const letter of [...absent]) {
    void has(NEEDS[/** @type {keyof typeof NEEDS} */ (letter)]).then(
      (found) => found && absent.delete(letter) && drawNav(path),
      () => undefined,
    );
  }
}

/** @param {string} letter @param {string} first */
function item(letter, first) {
  const [name, href] = GO[/** @type {keyof typeof GO} */ (letter)];
  const page = href.slice(2) || "overview";
  const isHere = page === first;
  return h(
    "a",
    { href, class: "nav-item", "aria-current": isHere ? "page" : undefined, title: `${name} (g ${letter})` },
    icon(page),
    h("span", {}, name),
  );
}

const arrow = () =>
  svg(
    "svg",
    { viewBox: "0 0 32 32", class: "logo", "aria-hidden": "true" },
    svg("rect", { width: 32, height: 32, rx: 8 }),
    svg("path", { d: "M9 23 23 9M15.500 9H23v7.500M9 17v6h6" }),
  );

function foot() {
  return h(
    "div",
    { class: "nav-foot" },
    h("a", { href: `${base}/docs`, title: "The HTTP interface" }, "API"),
    h("button", { class: "quiet", onclick: help, title: "Keyboard shortcuts (?)" }, "Keys"),
    h("button", { class: "quiet", onclick: theme, title: "Light, dark, or as the system says" }, "Theme"),
  );
}

const THEMES = ["", "light", "dark"];

function theme() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length];
  setTheme(next);
  try {
    localStorage.setItem("quiver-theme", next);
  } catch {
    // Storage may be refused; the choice then lasts as long as the page.
  }
}

/** @param {string | null} name */
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

try {
  setTheme(localStorage.getItem("quiver-theme"));
} catch {
  // As above.
}
