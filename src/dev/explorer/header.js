/** Above the routes: the project, a filter of the routes, and the last calls of this tab. */
import { repeat, whyNoRepeat } from "./repeat.js";

/** @param {{ system: object, history: import("./history.js").History, document: string }} tools */
export function headerComponents({ system, history, document: address }) {
  const { React, specSelectors, layoutSelectors, layoutActions } = system;
  const h = React.createElement;

  function Header() {
    return h(
      "div",
      { className: "svc-header" },
      h("div", { className: "svc-name" }, "svc run"),
      h("h1", null, specSelectors.info().get("title")),
      h(
        "p",
        null,
        h("code", null, location.origin),
        h("a", { href: address, target: "_blank", rel: "noreferrer" }, "OpenAPI document"),
      ),
    );
  }

  function Tools() {
    const filter = layoutSelectors.currentFilter() || "";
    const found = specSelectors.taggedOperations().size;
    return h(
      "div",
      { className: "svc-tools" },
      h("input", {
        type: "search",
        className: "svc-filter",
        placeholder: "Filter by path, method or words",
        "aria-label": "Filter the routes",
        value: filter,
        onChange: ({ target }) => layoutActions.updateFilter(target.value),
      }),
      h(LastCalls),
      filter !== "" && found === 0 && h("p", { className: "svc-none", role: "status" }, "No route fits."),
    );
  }

  function LastCalls() {
    const calls = React.useSyncExternalStore(history.subscribe, history.all);
    if (calls.length === 0) return null;
    return h(
      "details",
      { className: "svc-history" },
      h("summary", null, `Last calls (${calls.length})`),
      h(
        "ol",
        null,
        calls.map((past) => h(Past, { key: `${past.at} ${past.shown}`, past })),
      ),
      h("button", { type: "button", className: "svc-button", onClick: () => history.clear() }, "Forget them"),
    );
  }

  function Past({ past }) {
    const reason = whyNoRepeat(system, past);
    return h(
      "li",
      null,
      h("time", null, new Date(past.at).toLocaleTimeString()),
      h("b", { className: `svc-method-${past.method}` }, past.method.toUpperCase()),
      h("code", null, past.shown),
      past.state && h("span", { className: `svc-badge svc-${past.tone}` }, past.state),
      h(
        "button",
        {
          type: "button",
          className: "svc-button",
          disabled: reason !== undefined,
          title: reason ?? "Fills the form with its input and sends it again",
          "aria-label": `Repeat ${past.method.toUpperCase()} ${past.shown}`,
          onClick: () => repeat(system, past),
        },
        "Repeat",
      ),
    );
  }

  return { Header, Tools };
}

/** Routes that fit every word: by path, method, summary or the name of their file. `tagged` is Swagger UI's map by file. */
export function filterRoutes(tagged, phrase) {
  const words = phrase.toLowerCase().split(/\s+/).filter(Boolean);
  return tagged
    .map((tag, name) =>
      tag.update("operations", (operations) =>
        operations.filter((each) => {
          const summary = each.getIn(["operation", "summary"]) ?? "";
          const text = `${name} ${each.get("method")} ${each.get("path")} ${summary}`.toLowerCase();
          return words.every((word) => text.includes(word));
        }),
      ),
    )
    .filter((tag) => tag.get("operations").size > 0);
}
