// Making elements, and changing the page without making it flicker.

const svgNS = "http://www.w3.org/2000/svg";

// h makes an element. Text always becomes a text node, so that nothing of a
// label or a reason is ever read as HTML. `style` is an object of properties;
// what is null, undefined or false is left out.
export function h(tag, attributes, ...children) {
  const element = tag === "svg" || tag === "path" ? document.createElementNS(svgNS, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") {
      for (const [property, v] of Object.entries(value)) element.style.setProperty(property, v);
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

// show makes the children of a live element equal to new ones, and touches
// only what differs: focus, selection and the charts stay where they are.
export function show(live, ...children) {
  const fresh = live.cloneNode(false);
  fresh.append(...children.flat(Infinity).filter(Boolean));
  morphChildren(live, fresh);
}

function morphChildren(live, fresh) {
  if (live.hasAttribute?.("data-keep")) return;
  const byKey = new Map();
  for (const child of live.children) if (child.dataset?.key) byKey.set(child.dataset.key, child);
  let at = live.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = wanted.dataset?.key;
    const candidate = key ? byKey.get(key) : at;
    if (candidate && alike(candidate, wanted)) {
      if (candidate === at) at = at.nextSibling;
      else live.insertBefore(candidate, at);
      morph(candidate, wanted);
    } else {
      live.insertBefore(wanted, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function alike(a, b) {
  return a.nodeName === b.nodeName && a.nodeType === b.nodeType && a.dataset?.key === b.dataset?.key;
}

// morph leaves `open` alone: what the reader opened or closed stays so.
function morph(live, fresh) {
  if (live.nodeType === Node.TEXT_NODE) {
    if (live.data !== fresh.data) live.data = fresh.data;
    return;
  }
  for (const { name } of [...live.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open" && name !== "style") live.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "style" && name !== "open" && live.getAttribute(name) !== value) live.setAttribute(name, value);
  }
  // Not by attribute: the content security policy forbids style attributes.
  if (live.style.cssText !== fresh.style.cssText) live.style.cssText = fresh.style.cssText;
  morphChildren(live, fresh);
}

const icons = {
  critical: "M8 1h8l7 7v8l-7 7H8l-7-7V8z M12 6v8 M12 17.5v.5",
  warning: "M12 2 23 21H1z M12 9v6 M12 17.6v.4",
  info: "M12 1a11 11 0 1 0 0 22 11 11 0 0 0 0-22z M12 11v7 M12 6.6v.4",
  ok: "M12 1a11 11 0 1 0 0 22 11 11 0 0 0 0-22z M7 12.5l3.5 3.5L17 8.5",
  unknown: "M12 1a11 11 0 1 0 0 22 11 11 0 0 0 0-22z M9 9a3 3 0 1 1 4 2.8c-.8.4-1 1-1 2.2 M12 17.6v.4",
};

// icon draws a sign for a severity; the word beside it says the same.
export function icon(name) {
  return h("svg", { class: `icon ${name}`, viewBox: "0 0 24 24", "aria-hidden": "true" }, h("path", { d: icons[name] ?? icons.info }));
}
