import { keyError } from "../client/answer-error.ts";
import { EndpointClient } from "../client/gateway.ts";
import { fetchText } from "../client/request.ts";

/** The job routes of an endpoint, for a command: a refused key says how to give another. */
export function endpointClient(url: string, apiKey: string | undefined): EndpointClient {
  return new EndpointClient(url, apiKey, async (platform, address, init) => {
    const answer = await fetchText(platform, address, init);
    if (answer.status === 401) throw keyError(platform);
    return answer;
  });
}
