/** A JSON value or a text as it is, to read and to copy. */
import { html, useState } from "../html.js";

/** Longer texts are cut in the page; copying takes the whole. */
const SHOWN_MAX_CHARS = 100_000;

export function Value({ value, label }) {
  const [said, say] = useState("");
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => say("copied"),
      () => say("the browser refused"),
    );
  return html`<div class="value">
    <button type="button" class="quiet" aria-label=${`Copy ${label}`} onClick=${copy}>Copy</button><span role="status" class="soft">${said}</span>
    <pre tabindex="0" aria-label=${label}>${text.length > SHOWN_MAX_CHARS ? `${text.slice(0, SHOWN_MAX_CHARS)}\n… (${text.length} characters)` : text}</pre>
  </div>`;
}

/** `error` of a job is JSON text with the exception, or plain text. */
export function failureOf(error) {
  try {
    const { error_type = "", error_message, error_traceback } = JSON.parse(error);
    const type = error_type.replace(/^<class '(.*)'>$/, "$1");
    return { type, message: error_message ?? error, traceback: error_traceback };
  } catch {
    return { type: "", message: String(error), traceback: undefined };
  }
}

export function Failure({ error }) {
  const { type, message, traceback } = failureOf(error);
  return html`<div class="failure" role="alert">
    <p>${type && html`<code>${type}</code>${" "}`}${message}</p>
    ${traceback && html`<${Value} value=${traceback} label="Traceback" />`}
  </div>`;
}
