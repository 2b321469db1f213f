/** Overview: what the broker does now and did in the last 15 minutes. */

import { h, link, show as fill } from "../lib/dom.js";
import { bytes, count, duration, rate, short } from "../lib/format.js";
import { watch } from "../lib/live.js";
import { to } from "../lib/routes.js";
import { chart } from "../parts/chart.js";
import { spark } from "../parts/spark.js";
import { curl, quiver } from "../parts/command.js";
import { empty, pill, section, tile } from "../parts/states.js";
import { table } from "../parts/table.js";

const SPANS = { "1m": 60, "5m": 300, "15m": 900 };

/** @param {import("../lib/view.js").View} view */
export function show(view) {
  const span = /** @type {keyof typeof SPANS} */ (view.query.get("span") ?? "5m");
  const isPaused = view.query.get("paused") === "yes";
  const messages = chart((value) => short(value));
  const traffic = chart((value) => bytes(value), 1024);
  const work = chart((value) => short(value));
  const tiles = h("div", { class: "tiles" });
  const problems = h("div", { class: "problems" });
  const state = h("span");
  const topics = table({ columns: COLUMNS, rows: [], key: (row) => row.topic });
  const topicArea = h("div", {}, h("p", { class: "soft" }, "Waiting for the broker's first numbers"));
  const spans = h(
    "div",
    { class: "segmented", role: "group", "aria-label": "Span" },
    Object.keys(SPANS).map((name) =>
      h(
        "button",
        { "aria-pressed": String(name === span), onclick: () => view.go({ span: name === "5m" ? "" : name }) },
        name,
      ),
    ),
  );
  const pause = h(
    "button",
    { onclick: () => view.go({ paused: isPaused ? "" : "yes" }) },
    isPaused ? "Resume" : "Pause",
  );
  view.draw(
    { title: "Overview", about: state, actions: [spans, pause] },
    problems,
    tiles,
    h(
      "div",
      { class: "charts" },
      panel("Messages per second", messages),
      panel("Bytes per second", traffic),
      panel("Queues per second", work),
    ),
    section("Busiest topics", link("#/topics", "All topics"), topicArea),
  );
  view.command({ curl: curl("GET", "/overview"), cli: quiver("top") });
  let drawn = false;
  /** @param {import("../lib/live.js").Live} live */
  const draw = ({ overview, history, problem }) => {
    fill(
      problems,
      problem ? h("div", { class: "banner bad", role: "alert" }, problem) : null,
      (overview?.problems ?? []).map((/** @type {string} */ text) =>
        h("div", { class: "banner bad", role: "alert", dir: "auto" }, text),
      ),
    );
    if (!overview || (isPaused && drawn)) return;
    drawn = true;
    fill(
      state,
      h(
        "span",
        { class: "row" },
        overview.is_ready ? pill("Ready", "good") : pill("Not ready", "bad"),
        h(
          "span",
          { class: "soft" },
          `${overview.node_id} · ${overview.version} · up ${duration(Math.floor(overview.uptime_seconds))}`,
        ),
      ),
    );
    fill(tiles, ...numbers(overview, history, SPANS[span] ?? 300));
    lines(messages, history, SPANS[span], { published: "published_messages", read: "read_messages" });
    lines(traffic, history, SPANS[span], { published: "published_bytes", read: "read_bytes" });
    lines(work, history, SPANS[span], { delivered: "delivered", acked: "acked", "given back": "nacked" });
    topics.rows = overview.top_topics ?? [];
    if (topics.rows.length) {
      fill(topicArea, topics);
      topics.update();
    } else
      fill(
        topicArea,
        empty(
          "No traffic at the moment",
          "Topics appear here while they are published to or read from.",
          h("a", { class: "button", href: "#/publish" }, "Publish a message"),
        ),
      );
  };
  watch(draw, view.signal);
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  {
    name: "Topic",
    class: "name grow",
    cell: (row) => h("a", { class: "row-link", href: to(["topics", row.topic]), dir: "auto" }, row.topic),
  },
  { name: "Published", number: true, cell: (row) => rate(row.published_per_second) },
  { name: "Read", number: true, cell: (row) => rate(row.read_per_second) },
  { name: "Size", number: true, cell: (row) => bytes(row.size_bytes) },
  { name: "", class: "grow", cell: () => "" },
];

/** @param {string} title @param {any} content */
const panel = (title, content) => h("div", { class: "panel" }, h("h2", {}, title), content);

/** @param {any} overview @param {Record<string, number[]>} history @param {number} span */
function numbers(overview, history, span) {
  const rates = overview.rates ?? {};
  const disk = overview.disk ?? {};
  const used = disk.total_bytes ? 1 - disk.free_bytes / disk.total_bytes : null;
  return [
    tile("Published", rate(rates.published_messages), spark((history.published_messages ?? []).slice(-span))),
    tile("Read", rate(rates.read_messages), spark((history.read_messages ?? []).slice(-span))),
    tile(
      "Publish p99",
      overview.publish_p99_ms === null || overview.publish_p99_ms === undefined
        ? "–"
        : duration(overview.publish_p99_ms / 1000),
      "to the response",
    ),
    tile("Lag", short(overview.lag_messages), link("#/groups", `${count(overview.groups)} groups`)),
    tile(
      "Dead letters",
      h("span", { class: overview.dead_letters ? "bad" : "" }, short(overview.dead_letters)),
      link("#/dead-letters", overview.dead_letters ? "look at them" : "none"),
    ),
    tile("Stored", bytes(disk.log_bytes), link("#/topics", `${count(overview.topics)} topics`)),
    tile("Disk free", bytes(disk.free_bytes), used === null ? "" : `${Math.round(used * 100)} % used`),
    tile(
      "Loop lag",
      overview.loop_lag_ms === undefined || overview.loop_lag_ms === null
        ? "–"
        : duration(overview.loop_lag_ms / 1000),
      `${count(overview.connections)} connections`,
    ),
  ];
}

/** @param {any} element @param {Record<string, number[]>} history @param {number} span @param {Record<string, string>} names */
function lines(element, history, span, names) {
  const seconds = history.seconds ?? [];
  const first = seconds.findIndex((second) => second >= (seconds.at(-1) ?? 0) - (span ?? 300));
  element.seconds = seconds.slice(first);
  element.lines = Object.entries(names)
    .filter(([, name]) => history[name])
    .map(([shown, name]) => ({ name: shown, values: history[name].slice(first) }));
  element.update();
}
