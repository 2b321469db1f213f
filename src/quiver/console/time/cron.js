/** Cron expressions in words. What is unusual is left as it is written. */

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS = [
  "",
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const NAMED = {
  "@hourly": "every hour",
  "@daily": "every day at midnight",
  "@midnight": "every day at midnight",
  "@weekly": "every Sunday at midnight",
  "@monthly": "on the first of each month",
  "@yearly": "on the first of January",
  "@annually": "on the first of January",
};

/** @param {string} expression @returns {string} */
export function inWords(expression) {
  const text = expression.trim();
  if (text.startsWith("@every ")) return `every ${text.slice(7)}`;
  if (text in NAMED) return NAMED[/** @type {keyof typeof NAMED} */ (text)];
  const fields = text.split(/\s+/);
  if (fields.length === 6)
    return fields[0] === "0"
      ? inWords(fields.slice(1).join(" "))
      : `at second ${fields[0]} of: ${inWords(fields.slice(1).join(" "))}`;
  if (fields.length !== 5) return "five fields, six with seconds, @daily, or @every 30s";
  const [minute, hour, day, month, weekday] = fields;
  return [clock(minute, hour), days(day, weekday), month === "*" ? "" : `in ${named(month, MONTHS)}`]
    .filter(Boolean)
    .join(" ");
}

/** @param {string} minute @param {string} hour */
function clock(minute, hour) {
  if (minute === "*" && hour === "*") return "every minute";
  const every = /^\*\/(\d+)$/.exec(minute);
  if (every) return hour === "*" ? `every ${every[1]} minutes` : `every ${every[1]} minutes during hour ${hour}`;
  if (/^\d+$/.test(minute) && /^\d+$/.test(hour)) return `at ${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
  const hours = /^\*\/(\d+)$/.exec(hour);
  if (/^\d+$/.test(minute) && hours) return `at minute ${minute} of every ${hours[1]} hours`;
  if (/^\d+$/.test(minute) && hour === "*")
    return minute === "0" ? "every hour" : `at minute ${minute} of every hour`;
  return `at minute ${minute}, hour ${hour}`;
}

/** @param {string} day @param {string} weekday */
function days(day, weekday) {
  if (day === "*" && weekday === "*") return "";
  if (weekday === "*") return `on day ${day}`;
  const named_ = /^(1-5|mon-fri)$/i.test(weekday) ? "Monday to Friday" : named(weekday, DAYS);
  return day === "*" ? `on ${named_}` : `on day ${day} or ${named_}`;
}

/** @param {string} text @param {string[]} names */
const named = (text, names) =>
  text
    .split(",")
    .map((part) =>
      part
        .split("-")
        .map(
          (each) =>
            names[Number(each)] ||
            names.find((name) => name && name.toLowerCase().startsWith(each.toLowerCase())) ||
            each,
        )
        .join(" to "),
    )
    .join(", ");
