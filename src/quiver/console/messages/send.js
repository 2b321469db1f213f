/** Sending messages in batches, with what became of them. */

import { at, send } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { say } from "../parts/states.js";

const BATCH = 500;

/** @param {string} topic @param {any[]} messages @param {HTMLElement} outcome @param {AbortSignal} signal */
export async function deliver(topic, messages, outcome, signal) {
  let stored = 0;
  /** @type {any} */
  let last = null;
  for (let start = 0; start < messages.length && !signal.aborted; start += BATCH) {
    try {
      const { results } = await send(
        "POST",
        at`/topics/${topic}/messages`,
        { messages: messages.slice(start, start + BATCH) },
        signal,
      );
      const bad = results.find((/** @type {any} */ each) => each.error);
      stored += results.filter((/** @type {any} */ each) => !each.error).length;
      last = results.at(-1);
      if (bad) throw new Error(bad.error);
    } catch (error) {
      fill(
        outcome,
        h(
          "div",
          { class: "banner bad", role: "alert", dir: "auto" },
          `${stored ? `After ${plural(stored, "message")}: ` : ""}${error instanceof Error ? error.message : error}`,
        ),
      );
      return;
    }
    fill(
      outcome,
      h(
        "div",
        { class: "panel" },
        `${plural(stored, "message")} of ${count(messages.length)} stored. `,
        last && !last.delayed
          ? h(
              "a",
              { class: "strong", href: to(["topics", topic, "messages", last.partition, last.offset]) },
              `Look at ${last.partition}:${last.offset}`,
            )
          : last?.delayed
            ? h("a", { class: "strong", href: to(["topics", topic, "delayed"]) }, "It waits among the delayed ones")
            : null,
      ),
    );
  }
  say(`${plural(stored, "message")} published to ${topic}.`);
}

/** @param {string} topic @param {any} input @param {any} like @param {HTMLElement} outcome @param {AbortSignal} signal */
export async function fromFile(topic, input, like, outcome, signal) {
  const lines = (await input.files[0].text()).split(/\r?\n/).filter(Boolean);
  input.value = "";
  const { value: _, value_base64: __, ...rest } = like;
  await deliver(
    topic,
    lines.map((/** @type {string} */ value) => ({ ...rest, value })),
    outcome,
    signal,
  );
}
