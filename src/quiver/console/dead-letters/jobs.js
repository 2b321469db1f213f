/** Jobs of the broker that concern a topic, with their progress. */

import { at, get, send } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { pill } from "../parts/states.js";

/** @param {import("../lib/view.js").View} view @param {string} topic @param {HTMLElement} area */
export async function jobList(view, topic, area) {
  const { jobs } = await get("/jobs", {}, view.signal);
  const mine = jobs
    .filter((/** @type {any} */ job) => job.topic === topic || job.topic === `${topic}.dlq`)
    .slice(0, 5);
  fill(area, mine.length ? h("div", { class: "panel jobs" }, mine.map(item)) : null);
}

/** @param {any} job */
function item(job) {
  const done = h("i");
  done.style.width = `${job.total ? Math.min(100, (job.moved / job.total) * 100) : job.state === "running" ? 0 : 100}%`;
  const stop = () => void send("DELETE", at`/jobs/${job.id}`).catch(() => undefined);
  return h(
    "div",
    { class: "bar" },
    h("span", { class: "strong" }, job.kind ?? "redrive"),
    pill(job.state, job.state === "done" ? "good" : job.state === "failed" ? "bad" : ""),
    h("div", { class: "progress" }, done),
    h("span", { class: "soft" }, `${count(job.moved)} of ${count(job.total)}`),
    job.error ? h("span", { class: "bad" }, job.error) : null,
    job.state === "running" ? h("button", { class: "quiet", onclick: stop }, "Stop") : null,
  );
}
