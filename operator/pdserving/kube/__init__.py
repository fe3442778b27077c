"""The only place that talks to the API server: a few verbs on dicts, errors by meaning, events, a lease.

Dicts, because the client's typed models drop fields that are newer than the client, and users' pod templates must pass
through untouched.
"""
