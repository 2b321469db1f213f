/** Numbers, sizes, durations and times as people read them. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

/** @param {number | null | undefined} value */
export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));

/** Short enough for a tile: 1,234 · 56.7 k · 8.9 M. @param {number | null | undefined} value */
export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${fixed(value / 1e9)} G`;
  if (size >= 1e6) return `${fixed(value / 1e6)} M`;
  if (size >= 1e4) return `${fixed(value / 1e3)} k`;
  return size >= 100 || Number.isInteger(value) ? whole.format(value) : fixed(value);
}

/** @param {number} value */
const fixed = (value) =>
  value
    .toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)
    .replace(/(\.\d*?)0+$/, "$1")
    .replace(/\.$/, "");

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (Math.abs(size) < 1024 || unit === "TiB") return `${unit === "B" ? whole.format(size) : fixed(size)} ${unit}`;
    size /= 1024;
  }
  return "";
}

/** @param {number | null | undefined} value per second */
export const rate = (value) => (value === null || value === undefined ? "–" : `${short(value)}/s`);

/** @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${fixed(seconds * 1e6)} µs`;
  if (seconds < 1) return `${fixed(seconds * 1000)} ms`;
  if (seconds < 60) return `${fixed(seconds)} s`;
  if (seconds < 3600) return two(seconds, 60, "m", "s");
  if (seconds < 86400) return two(seconds / 60, 60, "h", "m");
  return two(seconds / 3600, 24, "d", "h");
}

/** @param {number} value @param {number} per @param {string} unit @param {string} rest */
function two(value, per, unit, rest) {
  const total = Math.floor(value);
  return total % per ? `${Math.floor(total / per)} ${unit} ${total % per} ${rest}` : `${total / per} ${unit}`;
}

/** Local time of day with milliseconds, and the date where it is not today. @param {string | number | null | undefined} value */
export function time(value) {
  if (value === null || value === undefined || value === "") return "–";
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  const [day, rest] = clock.format(date).split(" ");
  const text = `${rest}.${String(date.getMilliseconds()).padStart(3, "0")}`;
  return day === clock.format(new Date()).split(" ")[0] ? text : `${day} ${text}`;
}

/** How long ago or from now. @param {string | number | null | undefined} value @param {number} [now] */
export function ago(value, now = Date.now()) {
  if (value === null || value === undefined || value === "") return "–";
  const seconds = (now - new Date(value).getTime()) / 1000;
  if (Number.isNaN(seconds)) return String(value);
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `${duration(Math.floor(seconds))} ago` : `in ${duration(Math.ceil(-seconds))}`;
}

/** @param {number} number @param {string} one @param {string} [many] */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
