/** What was searched for lately and what was saved, kept by the browser. */

const KEPT = 20;

/** @param {string} name @returns {string[]} newest first */
export function recent(name) {
  try {
    const found = JSON.parse(localStorage.getItem(`quiver-${name}`) ?? "[]");
    return Array.isArray(found) ? found.map(String) : [];
  } catch {
    return []; // storage may be refused, or hold something else
  }
}

/** @param {string} name @param {string} text */
export function remember(name, text) {
  if (text) store(name, [text, ...recent(name).filter((each) => each !== text)]);
}

/** @param {string} name @param {string} text */
export function forget(name, text) {
  store(
    name,
    recent(name).filter((each) => each !== text),
  );
}

/** @param {string} name @param {string[]} texts */
function store(name, texts) {
  try {
    localStorage.setItem(`quiver-${name}`, JSON.stringify(texts.slice(0, KEPT)));
  } catch {
    // As above: then it is not remembered.
  }
}
