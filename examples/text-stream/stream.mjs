// Prints the invented text as it comes: node stream.mjs URL [PROMPT]
import { Endpoint } from "svc/client";

const [url, prompt = "Once upon a time"] = process.argv.slice(2);
const api = new Endpoint({ url, apiKey: process.env.PLATFORM_API_KEY });

process.stdout.write(`${prompt} `);
for await (const { event, data } of api.events("POST", "/generate", { body: { prompt, words: 80 } })) {
  const { token, error } = JSON.parse(data);
  if (event === "error") throw new Error(error);
  process.stdout.write(token ?? "\n");
}
