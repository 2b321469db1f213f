/** A search as a job of the broker: results as they are found, progress, and a way to stop it. */

import { at, get, send } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { bytes, count, plural } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { download } from "./download.js";
import { messageTable } from "./table.js";
import { empty } from "../parts/states.js";

const LIMIT = 1000;

/**
 * @param {import("../lib/view.js").View} view
 * @param {{ topic: string, area: HTMLElement, status: HTMLElement, place: import("./controls.js").MessagePlace }} options
 */
export async function searchMessages(view, { topic, area, status, place }) {
  const body = {
    where: place.where,
    newest_first: true,
    limit: LIMIT,
    ...(place.partition === null ? {} : { partitions: [place.partition] }),
  };
  view.command({
    curl: curl("POST", at`/topics/${topic}/search`, {}, body),
    cli: quiver("consume", topic, "--where", place.where),
  });
  const job = await send("POST", at`/topics/${topic}/search`, body, view.signal);
  const path = at`/search/${job.id}`;
  const stop = () => void send("DELETE", path).catch(() => undefined);
  view.signal.addEventListener("abort", stop);
  const messages = messageTable(view, topic, []);
  const bar = h("div");
  const list = h("div");
  fill(area, bar, list);
  /** @type {any} */
  let seen = job;
  let after = 0;
  while (!view.signal.aborted) {
    seen = await get(path, { wait: "500ms", after }, view.signal);
    messages.rows = messages.rows.concat(seen.messages);
    after += seen.messages.length;
    const isRunning = seen.state === "running";
    fill(
      bar,
      progress(seen, isRunning, stop, () => view.go({}), messages.rows, topic),
    );
    if (messages.rows.length) {
      fill(list, messages);
      messages.update();
    } else if (!isRunning) fill(list, empty("Nothing matches", `${plural(seen.scanned, "message")} were looked at.`));
    status.textContent = `${plural(seen.matched ?? messages.rows.length, "match", "matches")}`;
    if (!isRunning) break;
  }
  view.signal.removeEventListener("abort", stop);
  if (seen.error) fill(list, h("div", { class: "banner bad", role: "alert", dir: "auto" }, seen.error));
}

/** @param {any} seen @param {boolean} isRunning @param {() => void} stop @param {() => void} again @param {any[]} rows @param {string} topic */
function progress(seen, isRunning, stop, again, rows, topic) {
  const share = seen.total ? Math.min(1, seen.scanned / seen.total) : 1;
  const done = h("i");
  done.style.width = `${share * 100}%`;
  const text = `${count(seen.scanned)} of ${count(seen.total)} looked at${seen.scanned_bytes ? ` (${bytes(seen.scanned_bytes)})` : ""}`;
  const words = { running: "Searching", done: "Done", cancelled: "Stopped", failed: "Failed" };
  return h(
    "div",
    { class: "bar search-progress" },
    h("span", { class: "strong" }, words[/** @type {keyof typeof words} */ (seen.state)] ?? seen.state),
    h("div", { class: "progress" }, done),
    h("span", { class: "soft" }, text),
    isRunning ? h("button", { onclick: stop }, "Stop") : [rows.length ? download(rows, topic) : null],
  );
}
