/** System: health with its reasons, what runs here, the settings in force, log lines. */

import { base, get, has, send } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { bytes, count, duration, time } from "../lib/format.js";
import { watch } from "../lib/live.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange } from "../parts/dialog.js";
import { empty, facts, pill, say, section, tile } from "../parts/states.js";
import { table } from "../parts/table.js";
import { plain } from "../parts/value.js";

const LEVELS = ["debug", "info", "warning", "error"];
const KINDS = { warning: "warn", error: "bad", critical: "bad" };

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const level = view.query.get("level") ?? "info";
  const [hasNode, hasLogs, hasBundle] = await Promise.all([
    has("GET /node"),
    has("GET /logs"),
    has("GET /support-bundle"),
  ]);
  const tiles = h("div", { class: "tiles" });
  const [checks, about, settings, logs, state, writes] = [
    h("div"),
    h("div", { class: "panel" }),
    h("div"),
    h("div"),
    h("span"),
    h("span", { class: "row" }),
  ];
  const problems = h("div", { class: "problems" });
  const choice = h(
    "div",
    { class: "segmented", role: "group", "aria-label": "Log level" },
    LEVELS.map((name) =>
      h(
        "button",
        { "aria-pressed": String(name === level), onclick: () => view.go({ level: name === "info" ? "" : name }) },
        name,
      ),
    ),
  );
  view.draw(
    { title: "System", about: state, actions: hasBundle ? supportBundle() : null },
    problems,
    tiles,
    h(
      "div",
      { class: "split" },
      h("div", {}, section("Checks", null, checks), hasLogs ? section("Log", [writes, choice], logs) : null),
      h("div", {}, section("This node", null, about), hasNode ? section("Settings in force", null, settings) : null),
    ),
  );
  view.command({ curl: curl("GET", "/readyz", { verbose: true }), cli: quiver("doctor") });
  watch(({ overview }) => overview && fill(tiles, ...numbers(overview)), view.signal);
  await view.every(3, async () => {
    const [ready, stats, node, lines] = await Promise.all([
      get("/readyz", { verbose: true }, view.signal),
      get("/stats", {}, view.signal),
      hasNode ? get("/node", {}, view.signal) : null,
      hasLogs ? get("/logs", { level, limit: 200 }, view.signal) : null,
    ]);
    fill(state, ready.status === "pass" ? pill("Ready", "good") : pill("Not ready", "bad"));
    fill(problems, sentences(ready.problems, "bad"), sentences(ready.warnings, ""));
    const rows = Object.entries(ready.checks).map(([name, check]) => ({ name, .../** @type {any} */ (check) }));
    fill(checks, table({ rows, key: (row) => row.name, columns: CHECKS }));
    fill(about, description(stats, node));
    if (node) fill(settings, settingTable(node.settings));
    if (lines) {
      fill(writes, levelChoice(lines.level));
      fill(logs, logTable(lines.lines));
    }
  });
}

/** @param {Record<string, string> | undefined} found @param {string} kind */
const sentences = (found, kind) =>
  Object.entries(found ?? {}).map(([name, why]) =>
    h("div", { class: `banner ${kind}`, dir: "auto" }, `${name}: ${why}`),
  );

/** @param {any} overview */
const numbers = (overview) => [
  tile("Loop lag", duration((overview.loop_lag_ms ?? 0) / 1000), "worst of the last 10 s"),
  tile("Memory", bytes(overview.memory_bytes)),
  tile("Disk free", bytes(overview.disk?.free_bytes), `of ${bytes(overview.disk?.total_bytes)}`),
  tile("Log files", bytes(overview.disk?.log_bytes)),
  tile("Connections", count(overview.connections)),
  tile("Open transactions", count(overview.open_transactions)),
];

/** @param {any} stats @param {any} node */
const description = (stats, node) =>
  facts([
    ["Node", stats.node_id],
    ["Version", node ? `${node.version} (${node.git_commit})` : undefined],
    ["Started", new Date(stats.started_at).toLocaleString("sv-SE")],
    ["Up", duration(Math.floor(stats.uptime))],
    ["Process", node ? String(node.pid) : undefined],
    ["Python", node?.python],
    ["Open files", node ? `${count(node.open_files.open)} of ${count(node.open_files.limit)}` : undefined],
    ["Data", node?.data_dir ? `${node.data_dir.path} (${node.data_dir.file_system})` : undefined],
    ["Topics", count(stats.topics)],
    ["Messages", count(stats.total_messages)],
  ]);

/** @param {Record<string, any>} settings */
function settingTable(settings) {
  const rows = Object.entries(settings).map(([name, value]) => ({ name, value }));
  const shown = (/** @type {any} */ value) =>
    value === null || value === "" ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value);
  const columns = [
    { name: "Setting", class: "mono", cell: (/** @type {any} */ row) => row.name },
    { name: "Value", class: "grow mono", cell: (/** @type {any} */ row) => shown(row.value) },
  ];
  return h(
    "details",
    {},
    h("summary", {}, `${count(rows.length)} settings`),
    table({ rows, key: (row) => row.name, columns }),
  );
}

const supportBundle = () =>
  h(
    "a",
    {
      class: "button",
      href: `${base}/support-bundle`,
      download: "",
      title: "Health, counters, settings and log lines in one file, without content of messages",
    },
    "Support bundle",
  );

/** Which lines the broker writes. @param {string} level */
function levelChoice(level) {
  const chosen = h(
    "select",
    {
      class: "small",
      "aria-label": "The broker writes",
      onchange: () => {
        const wanted = chosen.value;
        chosen.value = level;
        askLevel(wanted, level);
      },
    },
    LEVELS.map((name) => h("option", {}, name)),
  );
  chosen.value = level;
  return [h("span", { class: "soft" }, "The broker writes"), chosen, h("span", { class: "soft" }, "and worse. Show")];
}

/** @param {string} level @param {string} before */
function askLevel(level, before) {
  void confirmChange({
    title: `Log level ${level}`,
    action: "Change",
    command: { curl: curl("PUT", "/logs/level", {}, { level }) },
    preview: async () => `The broker writes ${before} and worse now. The change lasts until it stops.`,
    run: async () => {
      await send("PUT", "/logs/level", { level });
      say(`The broker writes ${level} and worse.`);
    },
  });
}

/** Newest first. @param {any[]} lines */
function logTable(lines) {
  if (!lines.length) return empty("No log lines", "Nothing of this level was logged since the start.");
  const rows = lines.map((line, index) => ({ ...line, index })).reverse();
  return table({
    rows,
    key: (row) => `${row.time} ${row.index}`,
    columns: [
      { name: "Time", class: "mono", cell: (row) => time(row.time) },
      { name: "Level", cell: (row) => pill(row.level, KINDS[/** @type {keyof typeof KINDS} */ (row.level)] ?? "") },
      {
        name: "Message",
        class: "grow",
        cell: (row) => h("bdi", { title: plain(row.traceback ?? row.message) }, plain(row.message)),
      },
    ],
  });
}

/** @type {import("../parts/table.js").Column[]} */
const CHECKS = [
  { name: "Check", cell: (row) => row.name.replaceAll("_", " ") },
  { name: "State", cell: (row) => pill(row.status, row.status === "pass" ? "good" : "bad") },
  { name: "What it found", class: "grow", cell: (row) => row.message },
  { name: "Took", number: true, cell: (row) => duration(row.latency) },
];
