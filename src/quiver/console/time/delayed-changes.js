/** What can be done with delayed messages: deliver them now, at another time, or never. */

import { at, send } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { ago, count, plural, time } from "../lib/format.js";
import { curl, line, quiver } from "../parts/command.js";
import { confirmChange, field, openDialog } from "../parts/dialog.js";
import { say } from "../parts/states.js";

const AT_ONCE = 8;
const SHOWN = 20;

/** @param {any} row */
export const delayedId = (row) => `${row.partition}:${row.id}`;

/** @param {string} topic @param {any} row */
const path = (topic, row) => at`/topics/${topic}/delayed/${row.partition}/${row.id}`;

/** @param {string} topic @param {any[]} rows @param {() => void} done */
export function askNow(topic, rows, done) {
  const body = { delay: 0 };
  void confirmChange({
    title: `Deliver delayed messages of ${topic}`,
    action: "Deliver now",
    command: commands(topic, rows, "now", body),
    preview: async () => `${plural(rows.length, "message")} would enter the topic now.`,
    run: () => each(rows, (row) => send("PATCH", path(topic, row), body), "are on their way into the topic", done),
  });
}

/** @param {string} topic @param {any[]} rows @param {() => void} done */
export function askMove(topic, rows, done) {
  const when = h("input", { placeholder: "30m, or 2026-11-16T12:00:00Z", required: true, autocomplete: "off" });
  const preview = h("div", { class: "preview", "aria-live": "polite" }, "Say when.");
  const lines = h("div", { class: "commands" });
  const body = () =>
    /^[\d.]+\s*(ms|s|m|h|d|w)?/.test(when.value) && !/^\d{4}-/.test(when.value)
      ? { delay: when.value.trim() }
      : { deliver_at: when.value.trim() };
  when.addEventListener("input", () => {
    const wanted = body();
    const moment = wanted.deliver_at ? new Date(wanted.deliver_at) : null;
    const then =
      moment === null
        ? `${when.value} from now`
        : Number.isNaN(moment.getTime())
          ? ""
          : `at ${time(moment.getTime())}, ${ago(moment.getTime())}`;
    fill(preview, then ? `${plural(rows.length, "message")} would enter the topic ${then}.` : "Say when.");
    const { cli, curl: request } = commands(topic, rows, when.value, wanted);
    fill(lines, line(cli), line(request));
  });
  openDialog({
    title: `Move delayed messages of ${topic}`,
    action: "Move",
    content: [
      field("When", when, "From now on (30m, 2h), or a time. It must be before the message expires."),
      preview,
      lines,
    ],
    run: () => each(rows, (row) => send("PATCH", path(topic, row), body()), "are moved", done),
  });
}

/** @param {string} topic @param {any[]} rows @param {() => void} done */
export function askCancel(topic, rows, done) {
  void confirmChange({
    title: `Cancel delayed messages of ${topic}`,
    action: "Cancel them",
    danger: true,
    command: {
      curl: curl("DELETE", path(topic, rows[0])),
      cli: quiver("delayed", "cancel", topic, ...rows.slice(0, SHOWN).map(delayedId)),
    },
    preview: async () => `${plural(rows.length, "message")} would never enter the topic.`,
    run: () => each(rows, (row) => send("DELETE", path(topic, row)), "are cancelled", done),
  });
}

/** @param {string} topic @param {any[]} rows @param {string} when @param {any} body */
const commands = (topic, rows, when, body) => ({
  curl: curl("PATCH", path(topic, rows[0]), {}, body),
  cli: quiver("delayed", "move", topic, ...rows.slice(0, SHOWN).map(delayedId), "--to", when || "WHEN"),
});

/**
 * Some at a time. Those that have left meanwhile are counted; another refusal stays in the dialog.
 * @param {any[]} rows @param {(row: any) => Promise<any>} change @param {string} what @param {() => void} done
 */
async function each(rows, change, what, done) {
  const queue = [...rows];
  let gone = 0;
  const worker = async () => {
    for (let row = queue.shift(); row; row = queue.shift())
      await change(row).catch((error) => {
        if (error.status !== 404) throw error;
        gone++;
      });
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, rows.length) }, worker));
  say(`${count(rows.length - gone)} ${what}${gone ? `; ${count(gone)} had left already` : ""}.`);
  done();
}
