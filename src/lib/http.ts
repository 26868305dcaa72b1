/**
 * What svc uses of node:http, without fetch: a module that is imported shows all that it exports, and node:http exports parts of
 * fetch, which it then loads (five times the processor time of what is here).
 */
const http = process.getBuiltinModule("node:http");

export const { Agent, createServer, request, ServerResponse, validateHeaderName, validateHeaderValue } = http;
export type ServerResponse = import("node:http").ServerResponse;
