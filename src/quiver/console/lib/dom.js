/** Elements. Text only ever becomes a text node, so nothing that a message holds can become markup. */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */

/**
 * Makes an element. `on...` attributes are listeners, `value` and `checked` are properties.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * Makes an SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** @param {Element} element @param {Record<string, any>} attributes @param {Child[]} children */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "indeterminate") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...flat(children));
  return element;
}

/** @param {Child} children @returns {(Node | string)[]} */
export function flat(children) {
  if (Array.isArray(children)) return children.flatMap(flat);
  if (children === null || children === undefined || children === false) return [];
  return [children instanceof Node ? children : String(children)];
}

/**
 * Shows other children, and leaves those that look the same in place: focus, selection and hover stay.
 * @param {Element} parent
 * @param {...Child} children
 */
export function show(parent, ...children) {
  const wanted = flat(children).map((child) => (child instanceof Node ? child : document.createTextNode(child)));
  wanted.forEach((child, index) => {
    const present = parent.childNodes[index];
    if (!present) parent.append(child);
    else if (present !== child && !same(present, child)) parent.replaceChild(child, present);
  });
  while (parent.childNodes.length > wanted.length) parent.lastChild?.remove();
}

/** Elements that draw themselves compare by what they were given. @param {Node} a @param {Node} b */
function same(a, b) {
  if (a instanceof Element && a.localName.includes("-")) return false;
  return a.isEqualNode(b);
}

/** @param {string} href @param {...Child} children */
export const link = (href, ...children) => h("a", { href }, ...children);

/**
 * A class for elements that redraw when what they show is given.
 * @param {string} name @param {CustomElementConstructor} type
 */
export function define(name, type) {
  if (!customElements.get(name)) customElements.define(name, type);
}
