/** Components as tagged templates: what stands in `${}` becomes text or an attribute, never markup. */
import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export { render } from "./vendor/preact.js";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact-hooks.js";
export const html = htm.bind(h);
