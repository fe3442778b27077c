"""Measurements of the product against its peers; not part of the distribution."""
