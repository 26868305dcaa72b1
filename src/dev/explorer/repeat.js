/**
 * A past call again: its operation is opened, the form gets the call's input, and Execute is pressed, so that all that
 * the form checks and shows is checked and shown. What cannot be kept with the page (a file, a long text) cannot be repeated.
 */

const INPUT_MAX_CHARS = 50_000;
const FORM_MAX_MS = 5000;
const FORM_LOOK_MS = 30;

/**
 * @typedef {object} Input
 * @property {[name: string, place: string, value: unknown][]} parameters
 * @property {string} [body]
 */

/** @returns {Input | undefined} What stands in the form of an operation; undefined when it cannot be kept. */
export function inputOf({ specSelectors, oas3Selectors }, path, method) {
  const given = specSelectors.operationWithMeta(path, method).get("parameters");
  const parameters = given.toJS().map(({ name, in: place, value }) => [name, place, value ?? ""]);
  const body = oas3Selectors.requestBodyValue(path, method) ?? undefined;
  const isText = body === undefined || typeof body === "string";
  return isText && JSON.stringify([parameters, body]).length <= INPUT_MAX_CHARS ? { parameters, body } : undefined;
}

/** Why the call cannot be made again; undefined when it can. */
export function whyNoRepeat({ specSelectors }, { path, method, input }) {
  if (!specSelectors.specJson().hasIn(["paths", path, method])) return "The code has no such route any more.";
  return input === undefined ? "Its input was a file or too long to be kept: choose it in the form." : undefined;
}

/** @param {import("./history.js").Past} past One that can be repeated */
export async function repeat(system, { path, method, input }) {
  const { specSelectors, oas3Actions, layoutActions } = system;
  const operation = specSelectors.specJson().getIn(["paths", path, method]);
  const tag = operation.getIn(["tags", 0]);
  layoutActions.updateFilter("");
  layoutActions.show(["operations-tag", tag], true);
  layoutActions.show(["operations", tag, operation.get("operationId")], true);
  // The form fills itself when it opens: what the call had goes in after that.
  const execute = await ready(system, path, method);
  for (const [name, place, value] of input.parameters) fillIn(system, path, method, name, place, value);
  if (input.body !== undefined) oas3Actions.setRequestBodyValue({ value: input.body, pathMethod: [path, method] });
  execute?.click(); // none while an earlier call of the operation runs, which is seen there
  blockOf(path, method)?.scrollIntoView();
}

/** As typing does it: by the parameter itself, whose value counts more than one that is set by name. */
export function fillIn({ Im, specSelectors, specActions }, path, method, name, place, value) {
  const parameters = specSelectors
    .specJsonWithResolvedSubtrees()
    .getIn(["paths", path, method, "parameters"], Im.List());
  const parameter = parameters.find((each) => each.get("name") === name && each.get("in") === place);
  if (parameter) specActions.changeParamByIdentity([path, method], parameter, Im.fromJS(value), false);
}

function blockOf(path, method) {
  return document.querySelector(`.opblock-${method} [data-path="${CSS.escape(path)}"]`)?.closest(".opblock");
}

/** The button, once the form can be sent: Swagger UI shows it before it has read the operation, and then refuses. */
async function ready({ specSelectors }, path, method) {
  const isRead = () => specSelectors.specResolvedSubtree(["paths", path, method]) !== undefined;
  for (const began = performance.now(); performance.now() - began < FORM_MAX_MS; ) {
    const wasRead = isRead();
    await new Promise((resolve) => setTimeout(resolve, FORM_LOOK_MS));
    const execute = blockOf(path, method)?.querySelector(".execute:enabled");
    if (wasRead && execute) return execute;
  }
  return undefined;
}
