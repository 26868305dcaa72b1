/** A button that changes something: it waits for the answer, says what became of it, and asks before what cannot be undone. */
import { html, useRef, useState } from "../html.js";
import { may } from "../session.js";

/** `scope`: without it the button is not there. `confirm`: what is asked before; the action runs on yes. */
export function Act({ scope, label, confirm, run, className = "" }) {
  const [state, set] = useState({ phase: "idle", text: "" });
  const dialog = useRef(null);
  if (scope !== undefined && !may(scope)) return null;
  const act = async () => {
    dialog.current?.close();
    set({ phase: "busy", text: "" });
    try {
      set({ phase: "done", text: (await run()) ?? "" });
    } catch (error) {
      set({ phase: "failed", text: error.message });
    }
  };
  return html`<span class="act">
    <button
      type="button"
      class=${className}
      disabled=${state.phase === "busy"}
      onClick=${() => (confirm === undefined ? act() : dialog.current.showModal())}
    >
      ${state.phase === "busy" ? "…" : label}
    </button>
    <span role="status" class="good">${state.phase === "done" ? state.text : ""}</span>
    ${state.phase === "failed" && html`<span role="alert" class="bad">${state.text}</span>`}
    ${
      confirm !== undefined &&
      html`<dialog ref=${dialog} aria-label=${label}>
        <p>${confirm}</p>
        <div class="row">
          <button type="button" class="main" onClick=${act}>${label}</button>
          <button type="button" autofocus onClick=${() => dialog.current.close()}>Back</button>
        </div>
      </dialog>`
    }
  </span>`;
}
