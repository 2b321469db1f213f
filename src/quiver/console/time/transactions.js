/** Transactions that are open or being applied, and the way to end a stuck one. */

import { get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { ago, count, duration, plural } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange } from "../parts/dialog.js";
import { empty, pill, say, section, tile } from "../parts/states.js";
import { table } from "../parts/table.js";

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  view.command({ curl: curl("GET", "/transactions"), cli: quiver("txn", "list") });
  await view.every(3, async () => {
    const [found, stats] = await Promise.all([
      get("/transactions", {}, view.signal),
      get("/transactions/stats", {}, view.signal),
    ]);
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
    );
  });
}

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
