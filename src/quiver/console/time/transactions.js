/** Transactions that are open or being applied, and the way to end a stuck one. */

import { get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { ago, count, duration, plural } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange } from "../parts/dialog.js";
import { empty, pill, say, section, tile } from "../parts/states.js";
import { table } from "../parts/table.js";

const SHOWN_PRODUCERS = 100;

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  view.command({ curl: curl("GET", "/transactions"), cli: quiver("txn", "list") });
  await view.every(3, async () => {
    const [found, stats, known] = await Promise.all([
      get("/transactions", {}, view.signal),
      get("/transactions/stats", {}, view.signal),
      get("/producers", { limit: SHOWN_PRODUCERS }, view.signal),
    ]);
    const wanted = view.query.get("ended") ?? "";
    const producers = known.producers.filter((/** @type {any} */ row) => !wanted || row.last_outcome === wanted);
    view.draw(
      { title: "Transactions" },
      h(
        "div",
        { class: "tiles" },
        tile("Open", count(stats.active_transactions)),
        tile("Committed", count(stats.committed_total), "since the start"),
        tile("Aborted", count(stats.aborted_total), "since the start"),
        tile("Average", duration(stats.avg_duration), "from begin to decision"),
      ),
      section(
        "Open, or not applied everywhere yet",
        null,
        found.transactions.length
          ? table({ rows: found.transactions, key: (row) => row.transaction_id, columns: COLUMNS })
          : empty(
              "No open transactions",
              "A transaction is here from its first message until every partition knows how it ended.",
            ),
      ),
      section(
        "Producers, and how their last transaction ended",
        endings(view, wanted),
        producers.length
          ? table({ rows: producers, key: (row) => String(row.producer_id), columns: PRODUCERS })
          : empty(
              "No such producer",
              "A producer is here from its first transaction until it was not used for days.",
            ),
        h(
          "p",
          { class: "soft" },
          "Whoever comes with a lower epoch is fenced. ",
          known.count > SHOWN_PRODUCERS ? `The last ${SHOWN_PRODUCERS} of ${count(known.count)} are shown.` : "",
        ),
      ),
    );
  });
}

/** @param {import("../lib/view.js").View} view @param {string} wanted */
function endings(view, wanted) {
  const chosen = h(
    "select",
    {
      class: "small",
      "aria-label": "Last transaction",
      onchange: (/** @type {any} */ event) => view.go({ ended: event.target.value }),
    },
    ["", "committed", "aborted"].map((value) => h("option", { value }, value || "all")),
  );
  chosen.value = wanted;
  return chosen;
}

/** @type {import("../parts/table.js").Column[]} */
const PRODUCERS = [
  { name: "Producer", cell: (row) => h("code", {}, String(row.producer_id)) },
  { name: "Name", class: "key grow", cell: (row) => row.transactional_id ?? "–" },
  { name: "Epoch", number: true, cell: (row) => String(row.epoch) },
  {
    name: "Last transaction",
    cell: (row) =>
      row.is_open
        ? pill("open")
        : row.last_outcome
          ? pill(row.last_outcome, row.last_outcome === "committed" ? "good" : "warn")
          : "none yet",
  },
  { name: "Decided", cell: (row) => (row.last_decided_at ? ago(row.last_decided_at) : "–") },
  { name: "Used", cell: (row) => ago(row.used_at) },
];

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { name: "Transaction", cell: (row) => h("code", {}, row.transaction_id) },
  { name: "Name", class: "key", cell: (row) => row.transactional_id ?? "–" },
  { name: "State", cell: (row) => pill(row.state, row.state === "open" ? "" : "warn") },
  { name: "Open for", number: true, cell: (row) => ago(row.started_at).replace(/ ago$/, "") },
  { name: "Timeout", number: true, cell: (row) => duration(row.timeout_ms / 1000) },
  {
    name: "Partitions",
    class: "grow",
    cell: (row) =>
      h(
        "span",
        { class: "soft" },
        row.partitions.map((/** @type {any} */ part) => `${part.topic}-${part.partition}`).join(", "),
      ),
  },
  { name: "Groups", class: "key", cell: (row) => row.groups.join(", ") },
  {
    name: "",
    cell: (row) =>
      row.state === "open" ? h("button", { class: "quiet bad", onclick: () => abort(row) }, "Abort") : "",
  },
];

/** @param {any} row */
function abort(row) {
  const body = { producer_id: row.producer_id, epoch: row.epoch };
  void confirmChange({
    title: `Abort ${row.transactional_id ?? row.transaction_id}`,
    action: "Abort",
    danger: true,
    command: { curl: curl("POST", "/transactions/abort", {}, body), cli: quiver("txn", "abort", row.transaction_id) },
    preview: async () =>
      `What it has written to ${plural(row.partitions.length, "partition")} would never be read, and its offsets and acks would not count. Its producer gets an error and can start again.`,
    run: async () => {
      await send("POST", "/transactions/abort", body);
      say("The transaction is aborted.");
      dispatchEvent(new HashChangeEvent("hashchange"));
    },
  });
}
