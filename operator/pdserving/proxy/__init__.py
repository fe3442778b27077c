"""The P/D proxy: one asyncio loop of raw protocols between clients, prefill and decode engines.

``http`` speaks the wire, ``rewrite`` makes the two bodies, ``session`` runs one request, ``pool`` and ``routing`` say
which engines, ``epochs`` and ``discovery`` keep the pool true. It knows nothing of the operator: serving goes on
without it.
"""
