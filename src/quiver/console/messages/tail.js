/** A live tail: messages as they come, with a count of those that were left out. */

import { at, lines } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { messageTable } from "./table.js";
import { empty } from "../parts/states.js";

const KEPT = 2000;
const RATE = 50;
const DRAW_MS = 250;

/**
 * @param {import("../lib/view.js").View} view
 * @param {{ topic: string, area: HTMLElement, status: HTMLElement, place: import("./controls.js").MessagePlace }} options
 */
export function tailMessages(view, { topic, area, status, place }) {
  const query = { where: place.where, partition: place.partition ?? "", rate: RATE };
  view.command({
    curl: curl("GET", at`/topics/${topic}/tail`, query),
    cli: quiver("consume", topic, "--from", "latest", "--follow", place.where && "--where", place.where),
  });
  const messages = messageTable(view, topic, []);
  const waiting = empty("Waiting for messages", "What is published from now on appears here.");
  fill(area, waiting);
  let [arrived, dropped, timer] = [0, 0, 0];
  const draw = () => {
    timer = 0;
    status.textContent = `Live · ${count(arrived)} shown${dropped ? ` · ${count(dropped)} left out` : ""}`;
    if (!messages.rows.length) return;
    fill(
      area,
      dropped
        ? h(
            "div",
            { class: "banner" },
            `More came than ${RATE} a second: ${count(dropped)} messages are not shown here. They are in the topic; a search narrows the tail.`,
          )
        : null,
      messages,
    );
    messages.update();
  };
  const read = async () => {
    for await (const line of lines(at`/topics/${topic}/tail`, query, view.signal)) {
      if (line.error) throw new Error(line.error);
      if (line.dropped) dropped += line.dropped;
      else if (line.offset !== undefined) {
        arrived++;
        messages.rows.unshift(line);
        if (messages.rows.length > KEPT) messages.rows.length = KEPT;
      }
      timer ||= setTimeout(draw, DRAW_MS);
    }
  };
  status.textContent = "Live";
  read().then(
    () => view.signal.aborted || fill(status, "The tail has ended."),
    (error) => view.signal.aborted || view.fail(error),
  );
}
