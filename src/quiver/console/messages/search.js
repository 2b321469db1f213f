/** A search as a job of the broker: results as they are found, progress, and a way to stop it and to go on. */

import { at, get, send } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { bytes, count, plural } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { empty } from "../parts/states.js";
import { download } from "./download.js";
import { messageTable } from "./table.js";

const LIMIT = 500;
const STATES = { running: "Searching", done: "Done", cancelled: "Stopped", failed: "Failed" };
const BOUNDS = {
  limit: `Stopped after ${LIMIT} matches.`,
  max_seconds: "Stopped after its time.",
  result_bytes: "Stopped: what was found is large.",
};

/**
 * @param {import("../lib/view.js").View} view
 * @param {{ topic: string, area: HTMLElement, status: HTMLElement, place: import("./controls.js").MessagePlace }} options
 */
export async function searchMessages(view, { topic, area, status, place }) {
  const path = at`/topics/${topic}/search`;
  const body = {
    where: place.where,
    limit: LIMIT,
    ...(place.partition === null ? {} : { partitions: [place.partition] }),
  };
  view.command({ curl: curl("POST", path, {}, body), cli: quiver("search", topic, place.where) });
  const messages = messageTable(view, topic, []);
  const [bar, list] = [h("div"), h("div")];
  fill(area, bar, list);

  /** @param {any} seen @param {() => void} stop */
  const draw = (seen, stop) => {
    const rows = messages.rows;
    const goOn = seen.cursor ? h("button", { onclick: () => void run(seen.cursor).catch(fail) }, "Search on") : null;
    const after = [goOn, rows.length ? download(rows, topic) : null];
    fill(bar, progress(seen, seen.state === "running" ? h("button", { onclick: stop }, "Stop") : after));
    status.textContent = plural(rows.length, "match", "matches");
    if (seen.error) fill(list, h("div", { class: "banner bad", role: "alert", dir: "auto" }, seen.error));
    else if (rows.length) {
      fill(list, messages);
      messages.update();
    } else if (seen.state !== "running") {
      fill(list, empty("Nothing matches", `${plural(seen.scanned, "message")} were looked at.`));
    }
  };

  /** @param {string | undefined} cursor */
  const run = async (cursor) => {
    const job = await send("POST", path, { ...body, cursor }, view.signal);
    const stop = () => void send("DELETE", at`/search/${job.id}`).catch(() => undefined);
    view.signal.addEventListener("abort", stop);
    for (let seen = job, after = 0; !view.signal.aborted;) {
      seen = await get(at`/search/${job.id}`, { wait: "500ms", after }, view.signal);
      messages.rows = messages.rows.concat(seen.messages);
      after += seen.messages.length;
      draw(seen, stop);
      if (seen.state !== "running") break;
    }
    view.signal.removeEventListener("abort", stop);
  };

  /** @param {unknown} error */
  const fail = (error) => {
    if (view.signal.aborted) return;
    const text = error instanceof Error ? error.message : String(error);
    fill(list, h("div", { class: "banner bad", role: "alert", dir: "auto" }, text));
  };

  await run(undefined).catch(fail);
}

/** @param {any} seen @param {any} actions */
function progress(seen, actions) {
  const done = h("i");
  done.style.width = `${seen.total ? Math.min(1, seen.scanned / seen.total) * 100 : 100}%`;
  const read = seen.scanned_bytes ? ` (${bytes(seen.scanned_bytes)})` : "";
  const bound = BOUNDS[/** @type {keyof typeof BOUNDS} */ (seen.stopped_by)] ?? "";
  return h(
    "div",
    { class: "bar" },
    h("span", { class: "strong" }, STATES[/** @type {keyof typeof STATES} */ (seen.state)] ?? seen.state),
    h("div", { class: "progress" }, done),
    h("span", { class: "soft" }, `${count(seen.scanned)} of ${count(seen.total)} looked at${read}. ${bound}`),
    actions,
  );
}
