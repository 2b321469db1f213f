/** A queue group: what is ready, who holds what until when, which keys are blocked; pause and resume. */

import { at, get, has, send } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { count, duration, plural, time } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { curl } from "../parts/command.js";
import { confirmChange } from "../parts/dialog.js";
import { resetGroup } from "./reset.js";
import { empty, pill, say, section, tile } from "../parts/states.js";
import { bars, blockedKeys, consumers, leaseTable } from "./queue-tables.js";

const LEASES = 200;

/** @param {import("../lib/view.js").View} view @param {any} details @param {any} remove */
export async function queueGroup(view, details, remove) {
  const group = details.id;
  const topics = details.topics;
  const topic =
    view.query.get("topic") && topics.includes(view.query.get("topic"))
      ? /** @type {string} */ (view.query.get("topic"))
      : topics[0];
  if (!topic)
    return view.draw(
      { title: group, up: [["Groups", "#/groups"]], about: pill("queue"), actions: remove },
      empty("It has no topic yet", "The group takes messages of a topic with its first receive."),
    );
  const [hasLeases, canPause] = await Promise.all([
    has("GET /topics/{topic}/queues/{group}/leases"),
    has("POST /topics/{topic}/queues/{group}/pause"),
  ]);
  const path = at`/topics/${topic}/queues/${group}`;
  const tiles = h("div", { class: "tiles" });
  const [priorities, holders, blocked, leases, state, paused] = [
    h("div"),
    h("div"),
    h("div"),
    h("div"),
    h("span"),
    h("span"),
  ];
  const chosen = h(
    "select",
    { "aria-label": "Topic", onchange: (/** @type {any} */ event) => view.go({ topic: event.target.value }) },
    topics.map((/** @type {string} */ each) => h("option", {}, each)),
  );
  chosen.value = topic;
  view.draw(
    {
      title: group,
      up: [["Groups", "#/groups"]],
      about: h("span", { class: "row" }, pill("queue"), state),
      actions: [
        topics.length > 1 ? chosen : h("a", { href: to(["topics", topic]), class: "soft" }, topic),
        paused,
        h("button", { onclick: () => resetGroup(group, topics) }, "Reset"),
        remove,
      ],
    },
    tiles,
    h(
      "div",
      { class: "split" },
      h("div", {}, section("Who holds what", null, hasLeases ? leases : holders)),
      h("div", {}, section("Ready, by priority", null, priorities), section("Blocked keys", null, blocked)),
    ),
  );
  await view.every(3, async () => {
    const [found, held] = await Promise.all([
      get(path, {}, view.signal),
      hasLeases ? get(`${path}/leases`, { limit: LEASES }, view.signal) : null,
    ]);
    fill(
      tiles,
      tile("Ready", count(found.ready), "can be received now"),
      tile("Leased", count(found.leased), plural(Object.keys(found.consumers).length, "consumer")),
      tile("Retrying", count(found.retrying), "given back, not due"),
      found.blocked ? tile("Blocked", count(found.blocked), "wait for an earlier one of their key") : null,
      tile("Delayed", count(found.delayed), "published with a delay"),
      tile(
        "Dead",
        h("span", { class: found.dead ? "bad" : "" }, count(found.dead)),
        h("a", { href: to(["topics", topic, "dead-letters"], { group }) }, "dead letters"),
      ),
      tile("Oldest", duration(Math.round(found.oldest_age)), "not settled"),
    );
    const isPaused = Boolean(found.paused_since);
    fill(
      state,
      isPaused
        ? pill("paused", "warn", `since ${time(found.paused_since)}: ${found.pause_reason ?? "no reason given"}`)
        : null,
    );
    fill(
      paused,
      canPause
        ? h("button", { onclick: () => pause(view, path, group, isPaused) }, isPaused ? "Resume" : "Pause")
        : null,
    );
    fill(priorities, bars(found.ready_by_priority));
    fill(holders, consumers(found.consumers));
    fill(blocked, blockedKeys(topic, group, held?.blocked_keys ?? found.blocked_keys));
    if (held) fill(leases, leaseTable(topic, held));
  });
}

/** @param {import("../lib/view.js").View} view @param {string} path @param {string} group @param {boolean} isPaused */
function pause(view, path, group, isPaused) {
  const verb = isPaused ? "resume" : "pause";
  void confirmChange({
    title: isPaused ? `Resume ${group}` : `Pause ${group}`,
    action: isPaused ? "Resume" : "Pause",
    command: { curl: curl("POST", `${path}/${verb}`, {}, {}) },
    preview: async () => {
      const found = await get(path);
      return isPaused
        ? `${plural(found.ready, "message")} would be delivered again.`
        : `${plural(found.ready, "ready message")} would wait; ${plural(found.leased, "leased message")} can still be settled.`;
    },
    run: async () => {
      await send("POST", `${path}/${verb}`, isPaused ? {} : { reason: "from the console" });
      say(`${group} is ${isPaused ? "resumed" : "paused"}.`);
      view.go({ at: Date.now() % 1000 });
    },
  });
}
