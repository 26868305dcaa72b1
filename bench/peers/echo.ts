/** The floor: node:http that answers with the body it got. */
import { createServer } from "node:http";

createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on("data", (chunk: Buffer) => chunks.push(chunk));
  req.on("end", () => {
    const body = Buffer.concat(chunks);
    res.writeHead(200, { "content-type": "application/json", "content-length": body.length });
    res.end(body);
  });
}).listen(Number(process.argv[2]), "127.0.0.1");
