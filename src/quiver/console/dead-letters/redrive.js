/** Dead letters sent back or removed, after a dry run has counted them. */

import { at, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange, field, openDialog } from "../parts/dialog.js";
import { say } from "../parts/states.js";

/** @typedef {{ topic: string, what: any, words: string, done: () => void, asJob?: boolean }} Choice */

/** @param {any} what */
const flags = (what) => [
  ...(what.ids ?? []),
  ...["group", "reason", "contains"].flatMap((name) => (what[name] ? [`--${name}`, what[name]] : [])),
];

/** @param {Choice} choice */
export function askRedrive({ topic, what, words, done, asJob }) {
  const path = at`/topics/${topic}/dlq/redrive`;
  const target = h("input", { placeholder: "where each came from", autocomplete: "off" });
  const rate = h("input", { type: "number", min: 1, placeholder: "no limit" });
  openDialog({
    title: `Redrive ${words}`,
    action: "Continue",
    content: h(
      "div",
      { class: "fields" },
      field("To topic", target, "Empty: back to where they came from."),
      asJob ? field("Messages per second", rate, "Slower, as a job that can be stopped.") : null,
    ),
    run: async () => {
      const body = {
        ...what,
        ...(target.value ? { to: target.value.trim() } : {}),
        ...(rate.value ? { rate: Number(rate.value) } : {}),
      };
      setTimeout(() => confirmRedrive(path, topic, body, done));
    },
  });
}

/** @param {string} path @param {string} topic @param {any} body @param {() => void} done */
function confirmRedrive(path, topic, body, done) {
  const { rate: _, ...counted } = body;
  void confirmChange({
    title: `Redrive dead letters of ${topic}`,
    action: "Redrive",
    command: {
      curl: curl("POST", path, {}, body),
      cli: quiver("dlq", "redrive", topic, ...flags(body), body.to && "--to", body.to),
    },
    preview: async () => {
      const found = await send("POST", path, { ...counted, dry_run: true });
      return `${plural(found.count, "dead letter")} would go to ${body.to ?? "the topic each came from"}${found.not_found.length ? `; ${count(found.not_found.length)} are not there any more` : ""}.`;
    },
    run: async () => {
      const found = await send("POST", path, body);
      say(found.id ? "The redrive runs as a job." : `${plural(found.redriven, "dead letter")} sent back.`);
      done();
    },
  });
}

/** @param {Choice} choice */
export function askPurge({ topic, what, words, done }) {
  const path = at`/topics/${topic}/dlq/purge`;
  void confirmChange({
    title: `Purge ${words}`,
    action: "Remove permanently",
    danger: true,
    type: topic,
    command: {
      curl: curl("POST", path, {}, what),
      cli: quiver("dlq", "purge", topic, ...(flags(what).length ? flags(what) : ["--all"]), "--yes"),
    },
    preview: async () => {
      const found = await send("POST", path, { ...what, dry_run: true });
      return `${plural(found.count, "dead letter")} would be removed permanently.`;
    },
    run: async () => {
      const found = await send("POST", path, what);
      say(`${plural(found.purged, "dead letter")} removed.`);
      done();
    },
  });
}
