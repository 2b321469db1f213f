/** A small line without axes, for a table or a tile. */

import { define, h, svg } from "../lib/dom.js";

const SPARK = { width: 88, height: 20 };

/** @param {number[]} values @param {(index: number) => number} x @param {(value: number) => number} y */
export const path = (values, x, y) =>
  values.map((value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");

class SparkLine extends HTMLElement {
  /** @type {number[]} */ values = [];

  connectedCallback() {
    this._draw();
  }

  /** @param {SparkLine} other */
  adopt(other) {
    this.values = other.values;
    this._draw();
    return true;
  }

  _draw() {
    const { width, height } = SPARK;
    const values = this.values.length > 1 ? this.values : [this.values[0] ?? 0, this.values[0] ?? 0];
    const top = Math.max(...values, 1e-9);
    const line = path(
      values,
      (index) => (index / (values.length - 1)) * width,
      (value) => height - 2 - (value / top) * (height - 4),
    );
    this.replaceChildren(
      svg(
        "svg",
        {
          viewBox: `0 0 ${width} ${height}`,
          width,
          height,
          class: "spark",
          "aria-hidden": "true",
          preserveAspectRatio: "none",
        },
        svg("path", { class: "area", d: `${line}L${width} ${height}L0 ${height}Z` }),
        svg("path", { class: "line", d: line }),
      ),
    );
  }
}

define("spark-line", SparkLine);

/** @param {number[]} values */
export function spark(values) {
  const element = h("spark-line");
  element.values = values;
  return element;
}
