/** How many things happen when, as bars. */

import { svg, h } from "../lib/dom.js";
import { plural, time } from "../lib/format.js";

const BARS = 60;
const SIZE = { width: 900, height: 64 };

/** @param {number[]} times epoch milliseconds */
export function histogram(times) {
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const step = Math.max(1000, (last - first) / BARS);
  const counts = new Array(BARS).fill(0);
  for (const each of times) counts[Math.min(BARS - 1, Math.floor((each - first) / step))]++;
  const most = Math.max(...counts, 1);
  const width = SIZE.width / BARS;
  const bars = counts.map((number, index) => {
    const height = number ? Math.max(2, (number / most) * (SIZE.height - 2)) : 0;
    return svg(
      "rect",
      { x: index * width + 1, y: SIZE.height - height, width: width - 2, height, rx: 1 },
      svg("title", {}, `${time(first + index * step)}: ${plural(number, "message")}`),
    );
  });
  return h(
    "div",
    { class: "panel" },
    svg(
      "svg",
      {
        viewBox: `0 0 ${SIZE.width} ${SIZE.height}`,
        class: "histogram",
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${plural(times.length, "message")} from ${time(first)} to ${time(last)}`,
      },
      bars,
    ),
    h(
      "div",
      { class: "row spread soft" },
      h("span", {}, time(first).replace(/\.\d+$/, "")),
      h("span", {}, time(last).replace(/\.\d+$/, "")),
    ),
  );
}
