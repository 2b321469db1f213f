/** Groups of both kinds: members, lag, its trend and the time to catch up. */

import { get } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { count, duration, plural } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { spark } from "../parts/spark.js";
import { curl, quiver } from "../parts/command.js";
import { empty, pill } from "../parts/states.js";
import { table } from "../parts/table.js";

const POINTS = 40;
const SECONDS = 3;

/** Lags as this tab has seen them. @type {Map<string, { time: number, lag: number }[]>} */
const seen = new Map();

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const sort = view.query.get("sort") ?? "name";
  let search = view.query.get("search") ?? "";
  const area = h("div");
  const summary = h("span", { class: "soft" });
  const rows = table({
    columns: COLUMNS,
    rows: [],
    key: (row) => row.id,
    sort,
    onsort: (next) => view.go({ sort: next === "name" ? "" : next }),
  });
  /** @type {any[]} */
  let groups = [];
  const draw = () => {
    rows.rows = groups.filter(
      (group) =>
        group.id.toLowerCase().includes(search.toLowerCase()) ||
        group.topics.some((/** @type {string} */ topic) => topic.toLowerCase().includes(search.toLowerCase())),
    );
    summary.textContent = plural(groups.length, "group");
    fill(
      area,
      rows.rows.length
        ? rows
        : search
          ? empty("Nothing matches", `No group or topic of one has “${search}” in its name.`)
          : empty(
              "No groups yet",
              "A group is made by its first member: a stream group shares partitions, a queue group shares messages.",
            ),
    );
    rows.update();
  };
  const box = h("input", {
    type: "search",
    class: "grow",
    placeholder: "Search groups and their topics",
    "aria-label": "Search groups",
    "data-search": true,
    value: search,
    oninput: (/** @type {any} */ event) => ((search = event.target.value), view.note({ search }), draw()),
  });
  view.draw({ title: "Groups", about: summary }, h("div", { class: "bar" }, box), area);
  view.command({ curl: curl("GET", "/groups"), cli: quiver("group", "list") });
  await view.every(SECONDS, async () => {
    ({ groups } = await get("/groups", {}, view.signal));
    for (const group of groups) remember(group);
    draw();
  });
}

/** @param {any} group */
function remember(group) {
  const values = seen.get(group.id) ?? [];
  values.push({ time: Date.now() / 1000, lag: group.lag });
  if (values.length > POINTS) values.shift();
  seen.set(group.id, values);
}

/** Seconds until the lag is gone at the pace of the last minutes, or a word. @param {any} group */
function catchUp(group) {
  const values = seen.get(group.id) ?? [];
  if (!group.lag) return "";
  if (values.length < 3) return "";
  const [first, last] = [values[0], values[values.length - 1]];
  const pace = (first.lag - last.lag) / (last.time - first.time);
  if (pace === 0) return h("span", { class: "soft" }, "steady");
  return pace > 0 ? `in ${duration(Math.ceil(group.lag / pace))}` : h("span", { class: "warn" }, "growing");
}

/** @param {any} group */
const state = (group) =>
  group.paused || group.state === "paused"
    ? pill("paused", "warn")
    : group.members
      ? pill(group.state, group.state === "stable" ? "good" : "")
      : pill("no members");

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  {
    name: "Group",
    key: "name",
    class: "grow",
    by: (row) => row.id,
    cell: (row) => h("a", { class: "row-link", href: to(["groups", row.id]), dir: "auto" }, row.id),
  },
  { name: "Kind", key: "kind", by: (row) => row.kind, cell: (row) => row.kind },
  { name: "State", key: "state", by: (row) => row.state, cell: state },
  {
    name: "Topics",
    class: "key wide",
    cell: (row) => h("span", { class: "soft", title: row.topics.join(", ") }, row.topics.join(", ")),
  },
  { name: "Members", key: "members", number: true, by: (row) => row.members, cell: (row) => count(row.members) },
  {
    name: "Lag",
    key: "lag",
    number: true,
    by: (row) => row.lag,
    cell: (row) => [
      spark((seen.get(row.id) ?? []).map((each) => each.lag)),
      h("span", { class: "rate" }, count(row.lag)),
    ],
  },
  { name: "Caught up", class: "wide", cell: catchUp, about: "At the pace this page has seen" },
  {
    name: "Leased",
    key: "leased",
    number: true,
    by: (row) => row.leased,
    cell: (row) => (row.kind === "queue" ? count(row.leased) : ""),
  },
  {
    name: "Retrying",
    key: "retrying",
    number: true,
    by: (row) => row.retrying,
    cell: (row) => (row.kind === "queue" ? count(row.retrying) : ""),
  },
];
