/** Tables: sorted, with rows that stay in place while their values change, and drawn in part beyond 500 rows. */

import { define, h, show } from "../lib/dom.js";

const VIRTUAL_ROWS = 500;
const ROW_PX = 33;
const MARGIN_ROWS = 12;

/**
 * @typedef {object} Column
 * @property {string} name
 * @property {(row: any) => import("../lib/dom.js").Child} cell
 * @property {boolean} [number] right-aligned, with digits of one width
 * @property {(row: any) => any} [by] sorts by this
 * @property {string} [key] the name of the sorting in the address
 * @property {string} [class]
 * @property {string} [about]
 */

class DataTable extends HTMLElement {
  /** @type {any[]} */ rows = [];
  /** @type {Column[]} */ columns = [];
  /** @type {(row: any) => string} */ keyOf = (row) => String(row);
  /** @type {(row: any) => string} */ rowClass = () => "";
  /** @type {((sort: string) => void) | null} */ onsort = null;
  sort = "";
  /** @type {Map<string, HTMLTableRowElement>} */ _drawn = new Map();
  _first = -1;

  connectedCallback() {
    if (!this._body) {
      this._head = h("thead");
      this._body = h("tbody");
      this.append(h("table", {}, this._head, this._body));
    }
    this._stop = new AbortController();
    addEventListener("scroll", () => this._scrolled(), { passive: true, signal: this._stop.signal });
    addEventListener("resize", () => this._scrolled(), { passive: true, signal: this._stop.signal });
    this.update();
  }

  disconnectedCallback() {
    this._stop?.abort();
  }

  /** Takes over what another table would show. @param {DataTable} other */
  adopt({ rows, columns, keyOf, rowClass, onsort, sort }) {
    Object.assign(this, { rows, columns, keyOf, rowClass, onsort, sort });
    this.update();
    return true;
  }

  /** Draws the rows again, after they were given. */
  update() {
    if (!this._body) return;
    this._sorted = this._inOrder();
    show(
      this._head,
      h(
        "tr",
        {},
        this.columns.map((column) => this._heading(column)),
      ),
    );
    this._first = -1;
    this._scrolled();
  }

  _inOrder() {
    const name = this.sort.replace(/^-/, "");
    const column = this.columns.find((each) => each.key === name);
    if (!column?.by) return this.rows;
    const sign = this.sort.startsWith("-") ? -1 : 1;
    const by = column.by;
    return [...this.rows].sort((a, b) => {
      const [x, y] = [by(a) ?? "", by(b) ?? ""];
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
    });
  }

  /** @param {Column} column */
  _heading(column) {
    const kind = `${column.number ? "number" : ""} ${column.class ?? ""}`.trim();
    if (!column.by || !this.onsort) return h("th", { class: kind, title: column.about }, column.name);
    const isThis = this.sort.replace(/^-/, "") === column.key;
    const next = isThis && this.sort.startsWith("-") ? column.key : `-${column.key}`;
    const direction = !isThis ? undefined : this.sort.startsWith("-") ? "descending" : "ascending";
    return h(
      "th",
      { class: kind, "aria-sort": direction, title: column.about },
      h("button", { class: "sort", onclick: () => this.onsort?.(/** @type {string} */ (next)) }, column.name),
    );
  }

  _scrolled() {
    const rows = this._sorted ?? [];
    if (rows.length <= VIRTUAL_ROWS) return this._draw(rows, 0, 0);
    const top = this._body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / ROW_PX) - MARGIN_ROWS);
    if (first === this._first) return;
    this._first = first;
    const last = Math.min(rows.length, first + Math.ceil(innerHeight / ROW_PX) + 2 * MARGIN_ROWS);
    this._draw(rows.slice(first, last), first, rows.length - last);
  }

  /** @param {any[]} rows @param {number} above @param {number} below */
  _draw(rows, above, below) {
    const drawn = new Map();
    const wanted = rows.map((row) => {
      const key = this.keyOf(row);
      const line = this._drawn.get(key) ?? h("tr");
      drawn.set(key, line);
      this._fill(line, row);
      return line;
    });
    const all = [
      above ? spacer(above, this.columns.length) : null,
      ...wanted,
      below ? spacer(below, this.columns.length) : null,
    ].filter((each) => each !== null);
    all.forEach((line, index) => {
      if (this._body.children[index] !== line) this._body.insertBefore(line, this._body.children[index] ?? null);
    });
    while (this._body.children.length > all.length) this._body.lastChild.remove();
    this._drawn = drawn;
  }

  /** @param {HTMLTableRowElement} line @param {any} row */
  _fill(line, row) {
    line.className = this.rowClass(row);
    this.columns.forEach((column, index) => {
      const kind = `${column.number ? "number" : ""} ${column.class ?? ""}`.trim();
      const cell = line.cells[index] ?? line.appendChild(h("td", kind ? { class: kind } : {}));
      show(cell, column.cell(row));
    });
  }
}

/** @param {number} rows @param {number} columns */
function spacer(rows, columns) {
  const cell = h("td", { colspan: columns });
  cell.style.height = `${rows * ROW_PX}px`;
  return h("tr", { class: "spacer", "aria-hidden": "true" }, cell);
}

define("data-table", DataTable);

/**
 * @param {object} options
 * @param {Column[]} options.columns @param {any[]} options.rows @param {(row: any) => string} options.key
 * @param {string} [options.sort] @param {(sort: string) => void} [options.onsort] @param {(row: any) => string} [options.rowClass]
 * @param {string} [options.class]
 * @returns {any}
 */
export function table({ columns, rows, key, sort = "", onsort, rowClass, class: kind }) {
  const element = h("data-table", { class: kind });
  Object.assign(element, { columns, rows, keyOf: key, sort, onsort: onsort ?? null });
  if (rowClass) element.rowClass = rowClass;
  return element;
}
