/** Lines over time, as SVG, with axes and what is under the pointer. */

import { define, h, svg } from "../lib/dom.js";
import { time } from "../lib/format.js";
import { path } from "./spark.js";

const BOX = { left: 52, right: 12, top: 10, bottom: 22, height: 180 };

/** @typedef {{ name: string, values: number[] }} Line */

class TimeChart extends HTMLElement {
  /** @type {number[]} */ seconds = [];
  /** @type {Line[]} */ lines = [];
  /** @type {(value: number) => string} */ format = String;
  /** 1024 for bytes, so that the lines are at whole units. */ base = 10;
  /** @type {(index: number) => number} */ _x = () => 0;
  /** @type {(value: number) => number} */ _y = () => 0;
  /** @type {SVGGElement | null} */ _mark = null;

  connectedCallback() {
    this._watcher = new ResizeObserver(() => this.update());
    this._watcher.observe(this);
    this.addEventListener("pointermove", (event) => this._point(event));
    this.addEventListener("pointerleave", () => this._mark?.replaceChildren());
  }

  disconnectedCallback() {
    this._watcher?.disconnect();
  }

  update() {
    const width = this.clientWidth;
    if (!width) return;
    const { seconds } = this;
    const top = nice(this.base, Math.max(...this.lines.flatMap((line) => line.values), 0));
    const [first, last] = [seconds[0] ?? 0, seconds.at(-1) ?? 1];
    this._x = (/** @type {number} */ index) =>
      BOX.left + ((seconds[index] - first) / Math.max(1, last - first)) * (width - BOX.left - BOX.right);
    this._y = (/** @type {number} */ value) => BOX.top + (1 - value / top) * (BOX.height - BOX.top - BOX.bottom);
    const grid = [0, 0.5, 1].map((share) => {
      const y = this._y(top * share);
      return svg(
        "g",
        { class: "grid" },
        svg("line", { x1: BOX.left, x2: width - BOX.right, y1: y, y2: y }),
        svg("text", { x: BOX.left - 8, y: y + 4, "text-anchor": "end" }, this.format(top * share)),
      );
    });
    const marks =
      seconds.length > 1
        ? ticks(first, last).map((second) =>
            svg(
              "text",
              {
                class: "tick",
                x: BOX.left + ((second - first) / (last - first)) * (width - BOX.left - BOX.right),
                y: BOX.height - 5,
                "text-anchor": "middle",
              },
              clock(second),
            ),
          )
        : [];
    const drawn = this.lines.map((line, index) => {
      const d = path(line.values, this._x, this._y);
      const floor = this._y(0);
      return svg(
        "g",
        { class: `series series-${index}` },
        d && index === 0
          ? svg("path", {
              class: "area",
              d: `${d}L${this._x(line.values.length - 1)} ${floor}L${this._x(0)} ${floor}Z`,
            })
          : null,
        svg("path", { class: "line", d }),
      );
    });
    this._mark = svg("g", { class: "mark" });
    const text = this.lines.map((line) => `${line.name} ${this.format(line.values.at(-1) ?? 0)}`).join(", ");
    const legend = h(
      "div",
      { class: "legend" },
      this.lines.map((line, index) =>
        h(
          "span",
          { class: `series-${index}` },
          h("i"),
          line.name,
          " ",
          h("b", {}, this.format(line.values.at(-1) ?? 0)),
        ),
      ),
    );
    this.replaceChildren(
      legend,
      svg(
        "svg",
        { width, height: BOX.height, class: "chart", role: "img", "aria-label": text },
        grid,
        marks,
        drawn,
        this._mark,
      ),
    );
  }

  /** @param {PointerEvent} event */
  _point(event) {
    const { seconds, _x: x, _y: y, _mark: mark } = this;
    if (!mark || !x || !y || seconds.length < 2) return;
    const at = event.clientX - this.getBoundingClientRect().left;
    let near = 0;
    for (let index = 1; index < seconds.length; index++)
      if (Math.abs(x(index) - at) < Math.abs(x(near) - at)) near = index;
    const words = [
      time(seconds[near] * 1000).replace(/\.\d+$/, ""),
      ...this.lines.map((line) => this.format(line.values[near] ?? 0)),
    ].join("  ·  ");
    const isRight = x(near) > this.clientWidth / 2;
    mark.replaceChildren(
      svg("line", { x1: x(near), x2: x(near), y1: BOX.top, y2: BOX.height - BOX.bottom }),
      ...this.lines.map((line, index) =>
        svg("circle", { class: `series-${index}`, cx: x(near), cy: y(line.values[near] ?? 0), r: 3 }),
      ),
      svg(
        "text",
        { x: x(near) + (isRight ? -8 : 8), y: BOX.top + 10, "text-anchor": isRight ? "end" : "start" },
        words,
      ),
    );
  }
}

define("time-chart", TimeChart);

/** @param {number} second */
const clock = (second) => new Date(second * 1000).toTimeString().slice(0, 5);

/** Whole minutes, at most six. @param {number} first @param {number} last */
function ticks(first, last) {
  const step = [60, 120, 180, 300].find((each) => (last - first) / each <= 6) ?? 600;
  const found = [];
  for (let second = Math.ceil((first + 15) / step) * step; second < last - 10; second += step) found.push(second);
  return found;
}

/** The next number that is 1, 2 or 5 times a power of ten, in units of the base. @param {number} base @param {number} value @returns {number} */
function nice(base, value) {
  if (value <= 0) return 1;
  if (base !== 10 && value >= base) {
    const unit = base ** Math.floor(Math.log(value) / Math.log(base));
    return unit * nice(10, value / unit);
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return power * /** @type {number} */ ([1, 2, 5, 10].find((each) => each * power >= value));
}

/** @param {(value: number) => string} format @param {number} [base] */
export function chart(format, base = 10) {
  const element = h("time-chart");
  Object.assign(element, { format, base });
  return element;
}
