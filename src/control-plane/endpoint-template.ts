import type { EnvValues } from "../domain/env.ts";
import { SvcError } from "../domain/errors.ts";
import type { Store } from "../store/store.ts";
import { requireUnbound } from "./authenticate.ts";
import type { RequestContext } from "./context.ts";
import type { GivenFields } from "./endpoint-input.ts";
import { checkImageName, keepTemplate, readEnv } from "./resolvers/save-template.ts";

/** What of an endpoint comes from its template or stands in place of it; a field that is not there stays as it is. */
export interface TemplateContents {
  readonly templateId?: string;
  readonly imageName?: string;
  readonly env?: EnvValues;
}

/**
 * The template's image and variables are taken over when the input names it: a later change of the template does not touch
 * the endpoint. A templateId that names no template is kept as it is.
 */
export async function templateContents(
  store: Store,
  given: GivenFields,
  endpointName: string,
  context: RequestContext,
): Promise<TemplateContents> {
  if (given.template !== undefined && given.templateId !== undefined) {
    throw new SvcError("BAD_INPUT", "Give templateId or template, not both.");
  }
  if (given.template !== undefined) requireUnbound(context);
  const template =
    given.template !== undefined
      ? await keepTemplate(store, { name: endpointName, ...given.template }, context)
      : given.templateId !== undefined
        ? await store.templates.find(given.templateId)
        : undefined;
  if (given.imageName !== undefined) checkImageName(given.imageName);
  const templateId = template?.id ?? given.templateId;
  const imageName = given.imageName ?? template?.imageName;
  const own = given.env && readEnv(given.env);
  const env = template === undefined ? own : { ...template.env, ...own };
  return {
    ...(templateId !== undefined && { templateId }),
    ...(imageName !== undefined && { imageName }),
    ...(env !== undefined && { env }),
  };
}
