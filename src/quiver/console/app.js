/** Starts the console: the frame, the keyboard, the live stream, and the page that the address names. */

import { start as startLive } from "./lib/live.js";
import { start as startKeys } from "./lib/keys.js";
import { parse } from "./lib/routes.js";
import { View } from "./lib/view.js";
import { drawNav } from "./parts/nav.js";
import { failure } from "./parts/states.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const footer = /** @type {HTMLElement} */ (document.getElementById("command"));
/** @type {View | null} */
let current = null;

async function open() {
  const started = performance.now();
  const place = parse(location.hash);
  const stays = current !== null && place !== null && current.place.path === place.path;
  current?.leave();
  if (!place) {
    current = null;
    footer.replaceChildren();
    drawNav(null);
    document.title = "Quiver";
    main.replaceChildren(failure("There is no such page.", "The address does not name a page of the console."));
    return;
  }
  const view = new View(place, main, footer);
  current = view;
  drawNav(place.path);
  try {
    const page = await import(`./${place.page}.js`);
    if (view.signal.aborted) return;
    await page.show(view);
  } catch (error) {
    if (!view.signal.aborted) view.fail(error);
  }
  if (view.signal.aborted) return;
  if (!stays) scrollTo(0, 0);
  document.title = `${view.title ? `${view.title} · ` : ""}Quiver`;
  performance.measure("page", { start: started, detail: place.page });
  main.dataset.page = place.page;
}

addEventListener("hashchange", () => void open());
startKeys();
startLive();
void open();
