"""Requests of load-balanced endpoints: routes, binding, streams, WebSockets, ASGI applications, OpenAPI."""
