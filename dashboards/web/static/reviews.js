// Capacity reviews and digests that were made by the clock, the newest first.
import { h } from "./dom.js";
import { clock } from "./format.js";

const forms = [["html", "page"], ["md", "Markdown"], ["json", "JSON"]];

// reviews renders the section; it is empty where none was made.
export function reviews(fleet) {
  if (fleet.reviews.length === 0) return [];
  return [
    h("h2", null, "Reviews"),
    h("ul", { class: "facts" }, fleet.reviews.map((r) => h("li", { "data-key": r.name },
      h("b", null, r.kind === "review" ? "Capacity review" : "Digest"), " of ", h("time", { datetime: r.at, title: r.at }, clock(r.at, fleet.now)), ": ",
      forms.map(([ending, words], i) => [i > 0 && ", ", h("a", { href: `reviews/${r.name}.${ending}` }, words)])))),
  ];
}
