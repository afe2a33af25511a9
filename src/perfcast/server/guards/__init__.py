"""What stands before every request, the page and its websocket included: one ASGI middleware a concern."""
