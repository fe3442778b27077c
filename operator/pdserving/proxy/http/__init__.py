"""HTTP/1.1 on raw asyncio protocols: a server edge, an upstream client, and the framing both need.

No framework: half of a request's cost in aiohttp or httpx is the client's object model, and a P/D proxy is a client
twice for every request.
"""
